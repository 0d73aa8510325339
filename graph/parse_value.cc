#include "graph/parse_value.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>

#include "graph/names.h"

namespace sardonyx::graph {
namespace {

// The whole of `text` as a T, nothing when it is none or out of range.
template <class T, class... Base>
std::optional<T> read(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Bits of a NaN, after the word "nan": "(0xffc00000)". Nothing when no parenthesis follows.
std::optional<Token> parse_nan_bits(Lexer& lexer) {
  if (!lexer.accept("(")) return std::nullopt;
  Token bits = lexer.expect_number("the bits of a NaN, as 0x and hexadecimal digits");
  if (bits.text.substr(0, 2) != "0x") Lexer::fail(bits, "the bits of a NaN, as 0x...");
  lexer.expect(")");
  return bits;
}

template <class Bits>
Bits nan_bits(const Token& token) {
  const auto bits = read<Bits>(token.text.substr(2), 16);
  if (!bits) Lexer::fail(token, fmt::format("at most {} hexadecimal digits", 2 * sizeof(Bits)));
  return *bits;
}

template <class T>
T parse_integer(Lexer& lexer, std::string_view expected) {
  const Token token = lexer.expect_number(expected);
  const auto value = read<T>(token.text);
  if (!value) Lexer::fail(token, expected);
  return *value;
}

// "1", "-0.5", "1e-05", "inf", "-inf"; NaN is the caller's business.
template <class T>
T to_real(const Token& token, std::string_view expected) {
  if (token.is_word("inf")) return std::numeric_limits<T>::infinity();
  if (token.text == "-inf") return -std::numeric_limits<T>::infinity();
  const auto value = token.kind == Token::Kind::kNumber ? read<T>(token.text) : std::nullopt;
  if (!value) Lexer::fail(token, expected);
  return *value;
}

void append(std::vector<std::byte>& bytes, const auto& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

// One element, as its bytes.
template <class T, class Bits>
void parse_real(Lexer& lexer, std::vector<std::byte>& bytes, std::string_view expected) {
  const Token token = lexer.next();
  if (!token.is_word("nan")) return append(bytes, to_real<T>(token, expected));
  if (const auto bits = parse_nan_bits(lexer)) return append(bytes, nan_bits<Bits>(*bits));
  append(bytes, std::numeric_limits<T>::quiet_NaN());
}

void parse_half(Lexer& lexer, std::vector<std::byte>& bytes, DType dtype) {
  const bool half = dtype == DType::kFloat16;
  const Token token = lexer.next();
  if (!token.is_word("nan")) {
    const auto value = to_real<float>(token, "a number");
    return append(bytes, half ? float_to_half(value) : float_to_bfloat16(value));
  }
  const auto bits = parse_nan_bits(lexer);
  append(bytes, bits ? nan_bits<uint16_t>(*bits) : static_cast<uint16_t>(half ? 0x7e00 : 0x7fc0));
}

void parse_element(Lexer& lexer, DType dtype, std::vector<std::byte>& bytes) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:
      return parse_real<float, uint32_t>(lexer, bytes, "a float");
    case DType::kFloat64:
    case DType::kComplex128:
      return parse_real<double, uint64_t>(lexer, bytes, "a double");
    case DType::kFloat16:
    case DType::kBFloat16:
      return parse_half(lexer, bytes, dtype);
    case DType::kInt8:
      return append(bytes, parse_integer<int8_t>(lexer, "an int8"));
    case DType::kInt16:
      return append(bytes, parse_integer<int16_t>(lexer, "an int16"));
    case DType::kInt32:
      return append(bytes, parse_integer<int32_t>(lexer, "an int32"));
    case DType::kInt64:
      return append(bytes, parse_integer<int64_t>(lexer, "an int64"));
    case DType::kUint8:
      return append(bytes, parse_integer<uint8_t>(lexer, "a uint8"));
    case DType::kBool:
      return append(bytes, parse_integer<uint8_t>(lexer, "0 or 1"));
    case DType::kUint16:
      return append(bytes, parse_integer<uint16_t>(lexer, "a uint16"));
    case DType::kUint32:
      return append(bytes, parse_integer<uint32_t>(lexer, "a uint32"));
    case DType::kUint64:
      return append(bytes, parse_integer<uint64_t>(lexer, "a uint64"));
    default:
      Lexer::fail(lexer.peek(), "an element type that holds data");
  }
}

// Calls `item` for each element of a list whose opening bracket is taken, and takes the closing
// one.
template <class Item>
void parse_list(Lexer& lexer, std::string_view close, Item&& item) {
  if (lexer.accept(close)) return;
  do {
    item();
  } while (lexer.accept(","));
  if (!lexer.peek().is(close)) Lexer::fail(lexer.peek(), fmt::format("',' or '{}'", close));
  lexer.next();
}

std::string parse_string(Lexer& lexer) {
  if (lexer.peek().kind != Token::Kind::kString) Lexer::fail(lexer.peek(), "a string in quotes");
  return lexer.next().string;
}

bool is_int(const Token& token) {
  return token.kind == Token::Kind::kNumber &&
         token.text.find_first_of(".edinx") == std::string_view::npos;
}

bool is_float(const Token& token) {
  return token.kind == Token::Kind::kNumber || token.is_word("inf") || token.is_word("nan");
}

// An attribute's float: a float32 decimal, or a double with the suffix d.
double parse_attribute_float(Lexer& lexer) {
  const Token token = lexer.next();
  if (token.is_word("nan")) {
    std::vector<std::byte> bytes;
    const auto bits = parse_nan_bits(lexer);
    if (!bits) return std::numeric_limits<double>::quiet_NaN();
    if (bits->text.size() <= 2 + 2 * sizeof(float)) {
      const auto narrow = nan_bits<uint32_t>(*bits);
      float value;
      std::memcpy(&value, &narrow, sizeof value);
      return value;
    }
    const auto wide = nan_bits<uint64_t>(*bits);
    double value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  if (token.text.back() != 'd' || token.kind != Token::Kind::kNumber) {
    return to_real<float>(token, "a float32 (a double has the suffix d)");
  }
  Token digits = token;
  digits.text.remove_suffix(1);
  return to_real<double>(digits, "a double");
}

Attribute parse_attribute_list(Lexer& lexer) {
  if (lexer.peek().kind == Token::Kind::kString) {
    std::vector<std::string> strings;
    parse_list(lexer, "]", [&] { strings.push_back(parse_string(lexer)); });
    return strings;
  }
  std::vector<int64_t> ints;
  std::vector<double> floats;
  const Token first = lexer.peek();
  const bool all_ints = is_int(first);
  if (!is_float(first))
    Lexer::fail(first, "a number or a string (an empty list is ints[], floats[] or strings[])");
  parse_list(lexer, "]", [&] {
    if (all_ints) {
      ints.push_back(parse_int(lexer));
    } else {
      if (!is_float(lexer.peek())) Lexer::fail(lexer.peek(), "a float");
      floats.push_back(parse_attribute_float(lexer));
    }
  });
  return all_ints ? Attribute(ints) : Attribute(floats);
}

// After the word "graph": `("bytes", ["outer", "values"])`.
GraphAttribute parse_graph_attribute(Lexer& lexer) {
  GraphAttribute graph;
  lexer.expect("(");
  graph.serialized = parse_string(lexer);
  lexer.expect(",");
  if (lexer.peek().is_word("strings")) lexer.next();
  lexer.expect("[");
  parse_list(lexer, "]", [&] { graph.outer_values.push_back(parse_string(lexer)); });
  lexer.expect(")");
  return graph;
}

Attribute parse_word_attribute(Lexer& lexer, const Token& word) {
  const bool empty_list = lexer.peek().is("[");
  if (empty_list && (word.text == "ints" || word.text == "floats" || word.text == "strings")) {
    lexer.expect("[");
    lexer.expect("]");
    if (word.text == "ints") return std::vector<int64_t>();
    if (word.text == "floats") return std::vector<double>();
    return std::vector<std::string>();
  }
  if (word.text == "graph") return parse_graph_attribute(lexer);
  if (word.text == "undefined") return Tensor();
  return parse_data(lexer, parse_type(lexer, word));
}

Dim parse_dim(Lexer& lexer) {
  constexpr std::string_view kExpected = "a dimension: 3, N, N:3 or ?";
  const Token token = lexer.next();
  const auto number = [&](const Token& at) {
    const auto value = at.kind == Token::Kind::kNumber ? read<int64_t>(at.text) : std::nullopt;
    if (!value || *value < 0) Lexer::fail(at, kExpected);
    return *value;
  };
  if (token.is("?")) return {};
  if (!token.is_name()) return number(token);
  Dim dim = Dim::named(token.name());
  if (lexer.accept(":")) dim.value = number(lexer.next());
  return dim;
}

}  // namespace

int64_t parse_int(Lexer& lexer) { return parse_integer<int64_t>(lexer, "an integer of 64 bits"); }

TensorType parse_type(Lexer& lexer, const Token& word) {
  TensorType type;
  type.dtype = dtype_from_name(word.text);
  if (word.kind != Token::Kind::kIdentifier ||
      (type.dtype == DType::kUndefined && word.text != "undefined")) {
    Lexer::fail(word, "an element type such as float, double, int64, bool");
  }
  if (lexer.accept("[")) {
    type.ranked = true;
    parse_list(lexer, "]", [&] { type.dims.push_back(parse_dim(lexer)); });
  }
  if (lexer.peek().is("@")) {
    const Token at = lexer.next();
    const auto layout = Layout::from_str(lexer.layout_text());
    if (!layout) Lexer::fail(at, "a layout such as @0231, @n16 or @c16z");
    type.layout = *layout;
  }
  return type;
}

Tensor parse_data(Lexer& lexer, const TensorType& type) {
  const Token open = lexer.expect("{");
  if (!type.is_static()) Lexer::fail(open, "a type with known dimensions before the data");
  const int64_t numel = type.numel();
  if (lexer.accept("...")) {
    lexer.expect("}");
    const auto element = static_cast<int64_t>(
        type.dtype == DType::kString ? sizeof(std::string) : dtype_size(type.dtype));
    if (element == 0) Lexer::fail(open, "an element type that holds data");
    if (numel > kMostZeros / element) {
      Lexer::fail(open, fmt::format("data, for {{...}} stands for at most {} bytes", kMostZeros));
    }
    return Tensor(type.dtype, type.shape());
  }
  std::vector<std::byte> bytes;
  std::vector<std::string> strings;
  int64_t count = 0;
  parse_list(lexer, "}", [&] {
    ++count;
    if (type.dtype == DType::kString) {
      strings.push_back(parse_string(lexer));
    } else {
      parse_element(lexer, type.dtype, bytes);
    }
  });
  const bool pairs = type.dtype == DType::kComplex64 || type.dtype == DType::kComplex128;
  const int64_t expected = pairs ? 2 * numel : numel;
  if (count != expected) {
    Lexer::fail(open, fmt::format("{} elements for {}, not {}", expected, type.str(), count));
  }
  if (type.dtype == DType::kString) return Tensor::of_strings(type.shape(), std::move(strings));
  Tensor tensor(type.dtype, type.shape());
  if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

Attribute parse_attribute(Lexer& lexer) {
  const Token& first = lexer.peek();
  if (is_int(first)) return parse_int(lexer);
  if (is_float(first)) return parse_attribute_float(lexer);
  if (first.kind == Token::Kind::kString) return parse_string(lexer);
  if (lexer.accept("[")) return parse_attribute_list(lexer);
  if (lexer.accept("@")) return AttributeReference{lexer.expect_name("an attribute's name").name()};
  if (first.kind != Token::Kind::kIdentifier) {
    Lexer::fail(first, "a value: number, string, [list], tensor, graph(...) or @reference");
  }
  const Token word = lexer.next();
  return parse_word_attribute(lexer, word);
}

}  // namespace sardonyx::graph
