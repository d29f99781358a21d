#include <algorithm>
#include <charconv>

#include "http/codec.hpp"

namespace headgate::http {
namespace {

std::unexpected<Refusal> malformed(std::string message) { return std::unexpected(Refusal{400, std::move(message)}); }

std::expected<std::string, Refusal> decode(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      unsigned char byte = 0;
      const char* const first = text.data() + i + 1;
      if (i + 2 >= text.size() || std::from_chars(first, first + 2, byte, 16).ptr != first + 2) {
        return malformed("the target has '%' without two hexadecimal digits after it");
      }
      c = static_cast<char>(byte);
      i += 2;
    } else if (plus_is_blank && c == '+') {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return malformed("the target has a control character");
    decoded += c;
  }
  return decoded;
}

constexpr std::string_view kScheme = "http://";  // case-insensitive (RFC 3986, section 3.1)

}  // namespace

std::expected<Target, Refusal> parse_target(std::string_view target) {
  Target parsed;
  if (same_name(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const auto end = std::min(target.find_first_of("/?#"), target.size());
    parsed.host = target.substr(0, end);
    if (parsed.host.empty()) return malformed("the target names no host");
    target.remove_prefix(end);
  }
  // After a host, a missing path means "/".
  const std::string rooted =
      parsed.host.empty() || target.starts_with('/') ? std::string(target) : "/" + std::string(target);
  target = rooted;
  if (!target.starts_with('/')) return malformed("the target must begin with '/', or with http:// and a host");
  target = target.substr(0, target.find('#'));
  const auto mark = target.find('?');
  parsed.path = target.substr(0, mark);

  std::string_view rest = std::string_view(parsed.path).substr(1);
  while (!rest.empty()) {
    const auto slash = rest.find('/');
    parsed.segments.push_back(TRY(decode(rest.substr(0, slash), false)));
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  }

  rest = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const auto ampersand = rest.find('&');
    const std::string_view pair = rest.substr(0, ampersand);
    const auto equals = pair.find('=');
    auto name = TRY(decode(pair.substr(0, equals), true));
    auto value = TRY(decode(equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true));
    if (!pair.empty()) parsed.query.push_back({std::move(name), std::move(value)});
    rest = ampersand == std::string_view::npos ? std::string_view() : rest.substr(ampersand + 1);
  }
  return parsed;
}

std::string escape(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      escaped += c;
    } else {
      escaped += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return escaped;
}

}  // namespace headgate::http
