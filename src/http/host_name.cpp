#include "http/host_name.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "http/message.hpp"

namespace headgate::http {
namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_own_name(std::string_view host, std::span<const std::string> names) {
  in6_addr address{};
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return false;
    return ::inet_pton(AF_INET6, std::string(host.substr(1, end - 1)).c_str(), &address) == 1;
  }
  if (const auto colon = host.find(':'); colon != std::string_view::npos) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) return true;
  if (host.ends_with('.')) host.remove_suffix(1);
  return same_name(host, "localhost") ||
         std::ranges::any_of(names, [&](const std::string& name) { return !name.empty() && same_name(host, name); });
}

}  // namespace headgate::http
