#include "sim/ptx_lexer.hpp"
#include "sim/message.hpp"

namespace headgate::sim::ptx {
namespace {

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool word_part(char c) { return letter(c) || digit(c); }

std::size_t run_of(std::string_view text, std::size_t from, bool (*belongs)(char)) {
  std::size_t end = from;
  while (end < text.size() && belongs(text[end])) ++end;
  return end - from;
}

}  // namespace

std::unexpected<Error> fail_at(unsigned line, std::string reason) {
  return fail(ErrorCode::usage, message("line ", line, ": ", reason), "PTX text as nvcc -ptx writes it");
}

Token Lexer::take(TokenKind kind, std::size_t length) {
  const Token token{kind, text_.substr(at_, length), line_};
  at_ += length;
  return token;
}

Result<bool> Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.substr(at_, 2) == "/*") {
      const unsigned opened = line_;
      const std::size_t close = text_.find("*/", at_ + 2);
      if (close == std::string_view::npos) return fail_at(opened, "a comment opened with /* is never closed");
      for (; at_ < close + 2; ++at_) line_ += text_[at_] == '\n';
    } else {
      return true;
    }
  }
  return false;
}

Result<Token> Lexer::quoted() {
  const std::size_t end = text_.find_first_of("\"\n", at_ + 1);
  if (end == std::string_view::npos || text_[end] == '\n') return fail_at(line_, "a string is never closed");
  const Token token{TokenKind::string, text_.substr(at_ + 1, end - at_ - 1), line_};
  at_ = end + 1;
  return token;
}

Result<Token> Lexer::next() {
  if (!TRY(skip_blanks())) return Token{TokenKind::end, {}, line_};
  const char c = text_[at_];
  if (c == '"') return quoted();
  if (letter(c)) return take(TokenKind::word, run_of(text_, at_, word_part));
  if (digit(c)) {
    return take(TokenKind::number, run_of(text_, at_, [](char part) { return word_part(part) || part == '.'; }));
  }
  if (c == '.' && at_ + 1 < text_.size() && word_part(text_[at_ + 1])) {
    return take(TokenKind::directive, 1 + run_of(text_, at_ + 1, word_part));
  }
  if (c > ' ' && c < 0x7f) return take(TokenKind::mark, 1);
  return fail_at(line_, message("byte 0x", std::hex, static_cast<unsigned>(static_cast<unsigned char>(c)),
                                " does not belong in PTX"));
}

}  // namespace headgate::sim::ptx
