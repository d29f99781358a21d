// Splits PTX text into tokens: words, directives (.name), numbers, strings and punctuation marks, each with its line.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.hpp"

namespace headgate::sim::ptx {

enum class TokenKind { word, directive, number, string, mark, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // of a string: without quotes
  unsigned line = 1;

  [[nodiscard]] bool is(std::string_view expected) const {
    return kind != TokenKind::string && kind != TokenKind::end && text == expected;
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  // Returns the next token; after the last one always `end`.
  [[nodiscard]] Result<Token> next();
  [[nodiscard]] unsigned line() const { return line_; }

 private:
  Result<bool> skip_blanks();
  Result<Token> quoted();
  [[nodiscard]] Token take(TokenKind kind, std::size_t length);

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
};

// "line N: reason"
[[nodiscard]] std::unexpected<Error> fail_at(unsigned line, std::string reason);

}  // namespace headgate::sim::ptx
