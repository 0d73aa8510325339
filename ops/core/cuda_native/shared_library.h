// A library that is loaded when it is first needed, so that a run without it starts as fast and a
// machine without it runs all the rest. It stays loaded until the program ends.
#pragma once

#include <string>
#include <vector>

namespace sardonyx::ops::cuda {

class SharedLibrary {
 public:
  // The first of `sonames` that the folders of SARDONYX_CUDA_LIBRARIES have, then the first that
  // the system finds. Throws Error naming all that was tried; `what` is "cuDNN 9".
  SharedLibrary(std::string what, const std::vector<std::string>& sonames);

  // A function of the library, as whatever pointer it is stored in.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  // Throws Error when the library has no such function.
  Symbol symbol(const char* name) const;
  const std::string& file() const { return file_; }  // as it was asked for

 private:
  std::string what_, file_;
  void* handle_ = nullptr;
};

}  // namespace sardonyx::ops::cuda
