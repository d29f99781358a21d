#include "guest/limiter/memory/ptx_statics.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "guest/bare/saturating.hpp"
#include "guest/grant/text.hpp"

namespace headgate::limiter {
namespace {

bool ends_word(char c) { return c == '\0' || c == '[' || c == ';' || c == '=' || grant::is_blank(c); }

// PTX ISA, fundamental types: the name ends in the number of bits ("f32", "b8", "bf16"), of packed ones times their
// count ("f16x2"). Returns 0 for another word.
std::uint64_t bytes_of_type(std::string_view word) {
  std::size_t at = 0;
  const auto number = [&] {
    std::uint64_t value = 0;
    for (; at < word.size() && grant::is_digit(word[at]); ++at)
      value = value * 10 + static_cast<std::uint64_t>(word[at] - '0');
    return value;
  };
  while (at < word.size() && !grant::is_digit(word[at])) ++at;
  constexpr std::string_view kKinds[] = {"b", "u", "s", "f", "bf", "tf"};
  const std::string_view kind = grant::first(word, at);
  if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) return 0;
  std::uint64_t bits = number();
  if (at + 1 < word.size() && word[at++] == 'x') bits *= number();
  return bits > 128 ? 0 : bits / 8;
}

// Parses "[4096]" or "[0x1000]" and moves past it. Returns 0 for "[]".
std::uint64_t dimension(const char*& text) {
  std::uint64_t count = 0, base = 10;
  for (++text; *text != '\0' && *text != ']'; ++text) {
    const char c = grant::lower(*text);
    if (c == 'x') base = 16;
    const bool is_digit = grant::is_digit(c) || (base == 16 && c >= 'a' && c <= 'f');
    if (!is_digit) continue;
    const int digit = grant::is_digit(c) ? c - '0' : c - 'a' + 10;
    count = bare::saturating_add(bare::saturating_mul(count, base), static_cast<std::uint64_t>(digit));
  }
  if (*text == ']') ++text;
  return count;
}

// Returns the end of the comment that begins at `text`; `text` if none does.
const char* past_comment(const char* text) {
  if (text[0] != '/' || (text[1] != '/' && text[1] != '*')) return text;
  const bool is_line = text[1] == '/';
  const char* const end = std::strstr(text + 2, is_line ? "\n" : "*/");
  return end == nullptr ? text + std::strlen(text) : end + (is_line ? 1 : 2);
}

// Moves past "= {1, {2, 3}}" or "= 1", to the ',' or ';' after it. Returns the number of elements at the outer level.
std::uint64_t elements(const char*& text) {
  std::uint64_t commas = 0;
  for (int depth = 0; *text != '\0' && (depth > 0 || (*text != ',' && *text != ';'));) {
    if (*text == '{') ++depth;
    else if (*text == '}') --depth;
    else if (*text == ',' && depth == 1) ++commas;
    const char* const past = past_comment(text);
    text = past != text ? past : text + 1;
  }
  return commas + 1;
}

// Sizes one statement, from after ".global" to its ';': the types of its variables times their dimensions.
std::uint64_t bytes_declared(const char* text) {
  std::uint64_t sum = 0, element = 1, vector = 1, count = 1;
  bool is_unsized = false;
  const auto with_this_one = [&] { return bare::saturating_add(sum, bare::saturating_mul(element * vector, count)); };
  while (*text != '\0' && *text != ';') {
    if (const char* const past = past_comment(text); past != text) {
      text = past;
    } else if (*text == '[') {
      const std::uint64_t length = dimension(text);
      if (length != 0) count = bare::saturating_mul(count, length);
      else is_unsized = true;
    } else if (*text == '=') {
      const std::uint64_t length = elements(text);
      if (is_unsized) count = bare::saturating_mul(count, length);
    } else if (*text == ',') {
      sum = with_this_one();
      count = 1;
      is_unsized = false;
      ++text;
    } else if (*text == '.') {
      const char* end = text + 1;
      while (!ends_word(*end)) ++end;
      const std::string_view word(text + 1, static_cast<std::size_t>(end - text) - 1);
      if (word == "v2" || word == "v4") vector = word == "v2" ? 2 : 4;
      else if (const std::uint64_t bytes = bytes_of_type(word); bytes != 0) element = bytes;
      text = end;
    } else {
      ++text;
    }
  }
  return with_this_one();
}

bool follows(std::string_view word, const char* begin, const char* at) {
  while (at != begin && grant::is_blank(at[-1])) --at;
  const auto before = static_cast<std::size_t>(at - begin);
  return before >= word.size() && std::string_view(at - word.size(), word.size()) == word;
}

}  // namespace

// A cubin or fat binary starts with other bytes, and only PTX ends in a NUL.
bool is_ptx(const void* image) {
  const char first = *static_cast<const char*>(image);
  return first == '.' || first == '/' || grant::is_blank(first);
}

std::uint64_t static_bytes(const void* image) {
  if (image == nullptr || !is_ptx(image)) return 0;
  const auto* const text = static_cast<const char*>(image);
  constexpr std::string_view kGlobal = ".global";
  std::uint64_t sum = 0;
  for (const char* at = text; *at != '\0';) {
    const char* const begun = at;
    at = past_comment(at);
    if (at != begun) continue;
    if (*at == '"') {  // a string holds neither declarations nor comments
      const char* const end = std::strchr(at + 1, '"');
      at = end != nullptr ? end + 1 : at + 1;
      continue;
    }
    if (std::strncmp(at, kGlobal.data(), kGlobal.size()) != 0) {
      ++at;
      continue;
    }
    at += kGlobal.size();
    // Skip loads ("ld.global.u32") and pointer parameters (".ptr .global"), which name the state space too.
    if (!grant::is_blank(*at) || follows(".extern", text, begun) || follows(".ptr", text, begun)) continue;
    sum = bare::saturating_add(sum, bytes_declared(at));
  }
  return sum;
}

}  // namespace headgate::limiter
