#include "ops/core/cuda_native/cudnn_library.h"

#include <array>

#include "graph/support/error.h"

namespace sardonyx::ops::cudnn {

const CudnnLibrary& CudnnLibrary::get() {
  static const CudnnLibrary library;
  return library;
}

std::string CudnnLibrary::reason(cudnnStatus_t status) const {
  std::array<char, 1024> sentence = {};
  last_error(sentence.data(), sentence.size());
  std::string text = sentence.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() ? error_name(status) : fmt::format("{}: {}", error_name(status), text);
}

void CudnnLibrary::fail(cudnnStatus_t status, const char* doing) const {
  throw Error("cuDNN {}: {}, {}", version(), reason(status), doing);
}

}  // namespace sardonyx::ops::cudnn
