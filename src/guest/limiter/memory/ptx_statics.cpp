#include "guest/limiter/memory/ptx_statics.hpp"

#include <cstring>
#include <string_view>

#include "guest/bare/saturating.hpp"
#include "guest/grant/text.hpp"

namespace headgate::limiter {
namespace {

bool ends_word(char c) { return c == '\0' || c == '[' || c == ';' || c == '=' || grant::is_blank(c); }

// PTX ISA, fundamental types: the name ends in the number of bits (".f32", ".b8").
std::uint64_t bytes_of_type(std::string_view type) {
  std::uint64_t bits = 0;
  for (const char c : type)
    if (grant::is_digit(c)) bits = bits * 10 + static_cast<std::uint64_t>(c - '0');
  return bits == 0 || bits > 128 ? 1 : bits / 8;
}

// Parses "[4096]" or "[]" and moves past it.
std::uint64_t dimension(const char*& text) {
  std::uint64_t count = 0;
  for (++text; *text != '\0' && *text != ']'; ++text)
    if (grant::is_digit(*text)) {
      count = bare::saturating_add(bare::saturating_mul(count, 10), static_cast<std::uint64_t>(*text - '0'));
    }
  return count == 0 ? 1 : count;
}

// Sizes one declaration, from after ".global" to its ';' or '=': its type times its dimensions.
std::uint64_t bytes_declared(const char* text) {
  std::uint64_t bytes = 1, count = 1;
  while (*text != '\0' && *text != ';' && *text != '=') {
    if (*text == '[') {
      count = bare::saturating_mul(count, dimension(text));
    } else if (*text == '.') {
      const char* end = text + 1;
      while (!ends_word(*end)) ++end;
      const std::string_view word(text + 1, static_cast<std::size_t>(end - text) - 1);
      if (word == "v2") count = bare::saturating_mul(count, 2);
      else if (word == "v4") count = bare::saturating_mul(count, 4);
      else if (word.size() >= 2 && grant::is_digit(word[1])) bytes = bytes_of_type(word);
      text = end;
      continue;
    }
    if (*text != '\0') ++text;
  }
  return bare::saturating_mul(bytes, count);
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
  for (const char* at = text; (at = std::strstr(at, kGlobal.data())) != nullptr;) {
    const char* const begun = at;
    at += kGlobal.size();
    // Skip loads ("ld.global.u32") and pointer parameters (".ptr .global"), which name the state space too.
    if (!grant::is_blank(*at) || follows(".extern", text, begun) || follows(".ptr", text, begun)) continue;
    sum = bare::saturating_add(sum, bytes_declared(at));
  }
  return sum;
}

}  // namespace headgate::limiter
