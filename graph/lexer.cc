#include "graph/lexer.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Characters of `text` from `start` on for which `is` holds.
template <class Is>
size_t run(std::string_view text, size_t start, Is&& is) {
  size_t end = start;
  while (end < text.size() && is(text[end])) ++end;
  return end - start;
}

size_t identifier_size(std::string_view text) {
  size_t size = run(text, 0, [](char c) { return is_letter(c) || is_digit(c) || c == '.'; });
  while (size > 0 && text[size - 1] == '.') --size;
  return size;
}

// -?digits[.digits][e[+-]digits][d], 0xhex, -inf; 0 when `text` starts with none of them.
size_t number_size(std::string_view text) {
  if (text.substr(0, 4) == "-inf") return 4;
  if (text.substr(0, 2) == "0x") return 2 + run(text, 2, is_hex);
  size_t size = text.substr(0, 1) == "-" ? 1 : 0;
  const size_t digits = run(text, size, is_digit);
  if (digits == 0) return 0;
  size += digits;
  if (size + 1 < text.size() && text[size] == '.' && is_digit(text[size + 1])) {
    size += 1 + run(text, size + 1, is_digit);
  }
  if (size < text.size() && (text[size] == 'e' || text[size] == 'E')) {
    size_t exponent = size + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const size_t count = run(text, exponent, is_digit);
    if (count > 0) size = exponent + count;
  }
  if (size < text.size() && text[size] == 'd') ++size;
  return size;
}

size_t punctuation_size(std::string_view text) {
  for (const std::string_view longer : {"...", ":=", "=>"}) {
    if (text.substr(0, longer.size()) == longer) return longer.size();
  }
  return std::string_view("<>()[]{},=:.@?").find(text[0]) != std::string_view::npos ? 1 : 0;
}

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  if (token.kind == Token::Kind::kString) return fmt::format("{}", token.text);
  return fmt::format("'{}'", token.text);
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) {}

void Lexer::advance(size_t count) {
  for (; count > 0; --count, ++at_) {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<uint8_t>(text_[at_]) & 0xc0) != 0x80) {  // no inner byte of UTF-8
      ++column_;
    }
  }
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      advance(run(text_, at_, [](char other) { return other != '\n'; }));
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      advance(1);
    } else {
      return;
    }
  }
}

// The token ends at at_; notes its text and the comment behind it.
void Lexer::finish(Token& token, size_t start) {
  token.text = text_.substr(start, at_ - start);
  const size_t gap = run(text_, at_, [](char c) { return c == ' ' || c == '\t'; });
  if (at_ + gap < text_.size() && text_[at_ + gap] == '#') {
    const size_t begin = at_ + gap + 1;
    token.comment = text_.substr(begin, run(text_, begin, [](char c) { return c != '\n'; }));
  }
}

void Lexer::lex_string(Token& token) {
  token.kind = Token::Kind::kString;
  const size_t start = at_;
  const auto cut = [&](std::string_view expected) {
    token.text = text_.substr(start, std::min<size_t>(at_ - start, 20));
    fail(token, expected);
  };
  advance(1);
  while (true) {
    if (at_ >= text_.size() || text_[at_] == '\n') cut("a closing quote on the same line");
    const char c = text_[at_];
    advance(1);
    if (c == '"') break;
    if (c != '\\') {
      token.string += c;
      continue;
    }
    const char escaped = at_ < text_.size() ? text_[at_] : '\0';
    if (escaped == '"' || escaped == '\\') {
      token.string += escaped;
    } else if (escaped == 'n' || escaped == 't') {
      token.string += escaped == 'n' ? '\n' : '\t';
    } else if (escaped == 'x' && run(text_.substr(0, at_ + 3), at_ + 1, is_hex) == 2) {
      uint8_t byte = 0;
      std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, byte, 16);
      token.string += static_cast<char>(byte);
      advance(2);
    } else {
      cut("a string with the escapes \\\" \\\\ \\n \\t \\xNN only");
    }
    advance(1);
  }
  finish(token, start);
}

Token Lexer::lex() {
  skip_blanks();
  Token token;
  token.line = line_;
  token.column = column_;
  if (at_ >= text_.size()) return token;
  const std::string_view rest = text_.substr(at_);
  if (rest[0] == '"') {
    lex_string(token);
    return token;
  }
  size_t size = 0;
  if (is_letter(rest[0])) {
    token.kind = Token::Kind::kIdentifier;
    size = identifier_size(rest);
  } else if ((size = number_size(rest)) != 0) {
    token.kind = Token::Kind::kNumber;
  } else {
    token.kind = Token::Kind::kPunctuation;
    size = punctuation_size(rest);
  }
  if (size == 0) {
    token.text = rest.substr(0, 1);
    fail(token, "a name, a number, a string or one of < > ( ) [ ] { } , = : @ ?");
  }
  const size_t start = at_;
  advance(size);
  finish(token, start);
  return token;
}

const Token& Lexer::peek() {
  if (!ahead_) ahead_ = lex();
  return *ahead_;
}

Token Lexer::next() {
  if (!ahead_) return lex();
  Token token = std::move(*ahead_);
  ahead_.reset();
  return token;
}

bool Lexer::accept(std::string_view punctuation) {
  if (!peek().is(punctuation)) return false;
  next();
  return true;
}

Token Lexer::expect(std::string_view punctuation) {
  if (!peek().is(punctuation)) fail(peek(), fmt::format("'{}'", punctuation));
  return next();
}

Token Lexer::expect_name(std::string_view expected) {
  if (!peek().is_name()) fail(peek(), expected);
  return next();
}

Token Lexer::expect_number(std::string_view expected) {
  if (peek().kind != Token::Kind::kNumber) fail(peek(), expected);
  return next();
}

Token Lexer::bracket_word() {
  CHECK(!ahead_);
  skip_blanks();
  Token token;
  token.line = line_;
  token.column = column_;
  if (at_ >= text_.size()) return token;
  if (text_[at_] == '"') {
    lex_string(token);
    return token;
  }
  const size_t start = at_;
  size_t size = run(text_, at_, [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '/' || c == ':' || c == '-';
  });
  token.kind = size > 0 ? Token::Kind::kIdentifier : Token::Kind::kPunctuation;
  advance(size > 0 ? size : 1);
  finish(token, start);
  return token;
}

std::string_view Lexer::layout_text() {
  CHECK(!ahead_);
  const size_t start = at_;
  advance(
      run(text_, at_, [](char c) { return is_letter(c) || is_digit(c) || c == '(' || c == ')'; }));
  return text_.substr(start, at_ - start);
}

void Lexer::fail(const Token& found, std::string_view expected) {
  throw Error("line {}, column {} of the graph text: found {}, expected {}", found.line,
              found.column, shown(found), expected);
}

}  // namespace sardonyx::graph
