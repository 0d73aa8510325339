#include "ops/core/cuda_native/shared_library.h"

#include <dlfcn.h>

#include <sstream>

#include "graph/support/env.h"
#include "graph/support/error.h"

namespace sardonyx::ops::cuda {

namespace {

// In the order in which they are tried.
std::vector<std::string> candidates(const std::vector<std::string>& sonames) {
  std::vector<std::string> files;
  std::istringstream folders(support::env("SARDONYX_CUDA_LIBRARIES"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    for (const std::string& soname : sonames) files.push_back(folder + "/" + soname);
  }
  files.insert(files.end(), sonames.begin(), sonames.end());
  return files;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string what, const std::vector<std::string>& sonames)
    : what_(std::move(what)) {
  std::string tried;
  for (const std::string& file : candidates(sonames)) {
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      file_ = file;
      return;
    }
    tried += fmt::format("\n  tried {}: {}", file, dlerror());
  }
  throw Error(
      "{} can't be loaded; install it, or name the folder that has it in SARDONYX_CUDA_LIBRARIES{}",
      what_, tried);
}

SharedLibrary::Symbol SharedLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) {
    throw Error("{} has no function {}: it is older than this program needs; update {}", file_,
                name, what_);
  }
  return {address};
}

}  // namespace sardonyx::ops::cuda
