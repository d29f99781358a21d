// Reads PTX token by token: the steps that every part of the parser takes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/whole_number.hpp"
#include "sim/message.hpp"
#include "sim/ptx_lexer.hpp"

namespace headgate::sim::ptx {

// `token_` is the next token. Each step moves past what it has read; errors name the line.
class Reader {
 protected:
  explicit Reader(std::string_view text) : lexer_(text) {}

  Result<void> advance() {
    token_ = TRY(lexer_.next());
    return {};
  }
  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const {
    if (token_.kind == TokenKind::end)
      return fail_at(token_.line, message("expected ", what, ", found the end of the text"));
    return fail_at(token_.line, message("expected ", what, ", found '", token_.text.substr(0, 60), "'"));
  }
  Result<void> expect(std::string_view mark) {
    if (!token_.is(mark)) return expected(message("'", mark, "'"));
    return advance();
  }
  Result<std::string> word(std::string_view what) {
    if (token_.kind != TokenKind::word) return expected(what);
    std::string text(token_.text);
    TRY(advance());
    return text;
  }
  Result<std::uint64_t> number(std::string_view what, std::uint64_t most) {
    if (token_.kind != TokenKind::number) return expected(what);
    std::string_view digits = token_.text;
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == 'x') base = 16, digits.remove_prefix(2);
    if (digits.ends_with('U')) digits.remove_suffix(1);
    const auto value = whole_number(digits, base);
    if (!value || *value > most) {
      return fail_at(token_.line,
                     message(what, " is '", token_.text.substr(0, 60), "', not a whole number from 0 to ", most));
    }
    TRY(advance());
    return *value;
  }

  Result<void> skip_past(std::string_view mark, std::string_view what, bool in_statement = false) {
    while (!token_.is(mark)) {
      if (token_.kind == TokenKind::end || (in_statement && token_.is(";"))) return expected(what);
      TRY(advance());
    }
    return advance();
  }

  Result<void> skip_parentheses() {
    std::uint64_t depth = 0;
    do {
      if (token_.kind == TokenKind::end || token_.is(";")) return expected("')'");
      if (token_.is("(")) ++depth;
      else if (depth == 0) return expected("'('");
      if (token_.is(")")) --depth;
      TRY(advance());
    } while (depth > 0);
    return {};
  }

  Token token_;

 private:
  Lexer lexer_;
};

}  // namespace headgate::sim::ptx
