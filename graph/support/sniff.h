// What a file that should be an ONNX model really is, judged by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sardonyx::support {

// "" when the bytes may be protobuf; else a sentence part that says what they are and what to do:
// "a Git-LFS pointer, not the model itself; run `git lfs pull`".
std::string sniff_foreign_file(std::span<const std::byte> bytes);

}  // namespace sardonyx::support
