#include "guest/limiter/memory/ptx_statics.hpp"

#include <cstring>
#include <string_view>

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

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~0ull : product;
}

// Parses "[4096]" or "[]" and moves past it.
std::uint64_t dimension(const char*& text) {
  std::uint64_t count = 0;
  for (++text; *text != '\0' && *text != ']'; ++text)
    if (grant::is_digit(*text)) {
      if (__builtin_mul_overflow(count, 10u, &count)) return ~0ull;
      count += static_cast<std::uint64_t>(*text - '0');
    }
  return count == 0 ? 1 : count;
}

// Sizes one declaration, from after ".global" to its ';' or '=': its type times its dimensions.
std::uint64_t bytes_declared(const char* text) {
  std::uint64_t bytes = 1, count = 1;
  while (*text != '\0' && *text != ';' && *text != '=') {
    if (*text == '[') {
      count = times(count, dimension(text));
    } else if (*text == '.') {
      const char* end = text + 1;
      while (!ends_word(*end)) ++end;
      const std::string_view word(text + 1, static_cast<std::size_t>(end - text) - 1);
      if (word == "v2") count = times(count, 2);
      else if (word == "v4") count = times(count, 4);
      else if (word.size() >= 2 && grant::is_digit(word[1])) bytes = bytes_of_type(word);
      text = end;
      continue;
    }
    if (*text != '\0') ++text;
  }
  return times(bytes, count);
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
    if (__builtin_add_overflow(sum, bytes_declared(at), &sum)) return ~0ull;
  }
  return sum;
}

}  // namespace headgate::limiter
