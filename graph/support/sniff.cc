#include "graph/support/sniff.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace sardonyx::support {
namespace {

struct Signature {
  size_t offset;
  std::string_view bytes;
  const char* meaning;
};

constexpr std::array kSignatures = {
    Signature{0, "version https://git-lfs",
              "a Git-LFS pointer, not the model itself; run `git lfs pull` in its repository"},
    Signature{0, "\x1f\x8b", "compressed with gzip; unpack it first (gunzip)"},
    Signature{0, "BZh", "compressed with bzip2; unpack it first"},
    Signature{0,
              "\xfd"
              "7zXZ",
              "compressed with xz; unpack it first"},
    Signature{0, "\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"},
    Signature{0, "7z\xbc\xaf", "a 7z archive; unpack it first"},
    Signature{257, "ustar", "a tar archive; unpack it first"},
    Signature{
        0, "PK\x03\x04",
        "a zip archive (perhaps a PyTorch checkpoint), not an ONNX model; unpack it, or export the "
        "model to ONNX"},
    Signature{0, "PK\x05\x06", "an empty zip archive, not an ONNX model"},
    Signature{0, "\x89HDF",
              "an HDF5 file (perhaps a Keras model), not an ONNX model; export it to ONNX"},
    Signature{4, "TFL3", "a TensorFlow Lite model, not an ONNX model; export it to ONNX"},
    Signature{0, "\x80\x02",
              "a Python pickle (perhaps a PyTorch checkpoint), not an ONNX model; export it"},
    Signature{0, "\x93NUMPY", "a NumPy array, not an ONNX model"},
    Signature{0, "ORTM", "an ORT-format model; give the .onnx file it was made from"},
    Signature{4, "ORTM", "an ORT-format model; give the .onnx file it was made from"},
};

bool starts_with_tag(std::string_view text, std::string_view tag) {
  return text.size() >= tag.size() &&
         std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

std::string sniff_foreign_file(std::span<const std::byte> bytes) {
  constexpr size_t kLook = 512;
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kLook));
  for (const Signature& signature : kSignatures) {
    if (head.size() >= signature.offset &&
        head.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.meaning;
    }
  }
  const size_t start = head.find_first_not_of(" \t\r\n");
  const std::string_view text = start == std::string_view::npos ? "" : head.substr(start);
  if (starts_with_tag(text, "<!doctype") || starts_with_tag(text, "<html")) {
    return "an HTML page, not an ONNX model; the download probably went to a web page instead of "
           "the file";
  }
  // Real models hold control bytes (tags, lengths) within their first few bytes.
  const bool printable = std::all_of(head.begin(), head.end(), [](char c) {
    return (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' ||
           c == '\t';
  });
  const bool high = std::any_of(head.begin(), head.end(), [](char c) { return (c & 0x80) != 0; });
  if (!printable || high || head.empty()) return "";
  if (text.starts_with('<')) return "an XML file, not an ONNX model";
  if (text.starts_with('{') || text.starts_with('[')) {
    return "a JSON file, not an ONNX model; Sardonyx reads the binary .onnx form";
  }
  return "a text file, not an ONNX model; Sardonyx reads the binary .onnx form";
}

}  // namespace sardonyx::support
