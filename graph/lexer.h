// Tokens of the text form (print.h, parse.h). Looks one token ahead and lexes it only when asked,
// so that the parser can switch to the two places with their own alphabet: node names in brackets
// and layouts after "@".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sardonyx::graph {

struct Token {
  enum class Kind : uint8_t { kIdentifier, kString, kNumber, kPunctuation, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;     // as written
  std::string string;        // kString: without quotes and escapes
  int64_t line = 1;          // from 1
  int64_t column = 1;        // from 1, in characters
  std::string_view comment;  // what follows "#" after this token on its line

  bool is(std::string_view punctuation) const {
    return kind == Kind::kPunctuation && text == punctuation;
  }
  bool is_word(std::string_view word) const { return kind == Kind::kIdentifier && text == word; }
  bool is_name() const { return kind == Kind::kIdentifier || kind == Kind::kString; }
  std::string name() const { return kind == Kind::kString ? string : std::string(text); }
};

class Lexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view text);

  const Token& peek();
  Token next();
  // Takes the next token if it is this punctuation.
  bool accept(std::string_view punctuation);
  // Each throws Error (line, column, found, expected) when something else comes.
  Token expect(std::string_view punctuation);
  Token expect_name(std::string_view expected);  // identifier or string
  Token expect_number(std::string_view expected);

  // Inside brackets: a run of [A-Za-z0-9_./:-] (as kIdentifier), a string, or "]". CHECK: nothing
  // was peeked.
  Token bracket_word();
  // The letters, digits and parentheses right after an "@". CHECK: nothing was peeked.
  std::string_view layout_text();

  [[noreturn]] static void fail(const Token& found, std::string_view expected);

 private:
  Token lex();
  void lex_string(Token& token);
  void skip_blanks();
  void advance(size_t count);
  void finish(Token& token, size_t start);

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t column_ = 1;
  std::optional<Token> ahead_;
};

}  // namespace sardonyx::graph
