// A recursive-descent parser for the one dictionary a header holds.
#include "runtime/data/npy_header.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kSupported =
    "b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, c8, c16 in either byte order";

class HeaderParser {
 public:
  HeaderParser(std::string_view text, size_t offset, const std::string& name)
      : text_(text), offset_(offset), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        descr(header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = tuple();
      } else {
        fail("one each of 'descr', 'fortran_order' and 'shape', not '" + key + "'");
      }
      if (accept('}')) break;
      expect(',');
    }
    skip_blanks();
    if (at_ != text_.size()) fail("the end of the header");
    if (!has_descr || !has_order || !has_shape) {
      throw Error("{}: the npy header lacks '{}'", name_,
                  !has_descr ? "descr" : (!has_order ? "fortran_order" : "shape"));
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error("{}: the npy header is not a plain literal: at offset {} found \"{}\", expected {}",
                name_, offset_ + at_, text_.substr(at_, 24), expected);
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }

  std::string string() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("a quoted string");
    size_t end = text_.find(text_[at_], at_ + 1);
    if (end == text_.npos) fail("a closed string");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  bool boolean() {
    skip_blanks();
    for (std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("True or False");
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> result;
    expect('(');
    while (!accept(')')) {
      result.push_back(integer());
      if (accept(')')) break;
      expect(',');
    }
    return result;
  }

  int64_t integer() {
    skip_blanks();
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    auto [stop, code] = std::from_chars(text_.data() + at_, end, value);
    if (code == std::errc::result_out_of_range) fail("a dimension below 2^63");
    if (code != std::errc() || value < 0) fail("a dimension (a whole number, not negative)");
    at_ = static_cast<size_t>(stop - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 60000L
    return value;
  }

  void descr(NpyHeader& header) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error("{}: the npy 'descr' is a structured (record) type, supported are {}", name_,
                  kSupported);
    }
    std::string text = string();
    if (text.find('O') != text.npos) {
      throw Error(
          "{}: the npy 'descr' is {}: the file holds pickled Python objects, which are never "
          "loaded. "
          "Save a numeric array",
          name_, text);
    }
    std::optional<DType> dtype = type_of(text);
    if (!dtype)
      throw Error("{}: the npy 'descr' is '{}', supported are {}", name_, text, kSupported);
    header.dtype = *dtype;
    header.order = text[0] == '>' ? ByteOrder::kBig : ByteOrder::kLittle;
  }

  static std::optional<DType> type_of(std::string_view descr) {
    struct Entry {
      std::string_view code;
      DType dtype;
    };
    static constexpr Entry kEntries[] = {
        {"b1", DType::kBool},      {"i1", DType::kInt8},       {"u1", DType::kUint8},
        {"i2", DType::kInt16},     {"u2", DType::kUint16},     {"i4", DType::kInt32},
        {"u4", DType::kUint32},    {"i8", DType::kInt64},      {"u8", DType::kUint64},
        {"f2", DType::kFloat16},   {"f4", DType::kFloat32},    {"f8", DType::kFloat64},
        {"c8", DType::kComplex64}, {"c16", DType::kComplex128}};
    if (descr.size() < 3) return std::nullopt;
    bool one_byte = descr.substr(1) == "b1" || descr.substr(1) == "i1" || descr.substr(1) == "u1";
    if (std::string_view("<>=").find(descr[0]) == descr.npos && !(descr[0] == '|' && one_byte)) {
      return std::nullopt;
    }
    for (const Entry& entry : kEntries) {
      if (descr.substr(1) == entry.code) return entry.dtype;
    }
    return std::nullopt;
  }

  std::string_view text_;
  size_t offset_;  // of the text in the file
  const std::string& name_;
  size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) throw Error("{}: empty file (0 bytes), expected an npy file", name);
  if (text.substr(0, kMagic.size()) != kMagic.substr(0, text.size())) {
    throw Error("{}: not an npy file: the magic at offset 0 is not \"\\x93NUMPY\"", name);
  }
  size_t prefix = kMagic.size() + 2;
  if (text.size() < prefix) {
    throw Error("{}: truncated header: {} bytes, expected at least {}", name, text.size(), prefix);
  }
  int version = static_cast<unsigned char>(text[kMagic.size()]);
  if (version < 1 || version > 3) {
    throw Error("{}: npy version {} at offset {}, supported are 1, 2 and 3", name, version,
                kMagic.size());
  }
  size_t length_bytes = version == 1 ? 2 : 4;
  if (text.size() < prefix + length_bytes) {
    throw Error("{}: truncated header: {} bytes, expected at least {}", name, text.size(),
                prefix + length_bytes);
  }
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text[prefix + i]);
  }
  prefix += length_bytes;
  if (text.size() - prefix < length) {
    throw Error("{}: truncated header: declares {} bytes at offset {}, found {}", name, length,
                prefix, text.size() - prefix);
  }
  NpyHeader header = HeaderParser(text.substr(prefix, length), prefix, name).parse();
  header.data_offset = prefix + length;
  return header;
}

}  // namespace sardonyx::runtime
