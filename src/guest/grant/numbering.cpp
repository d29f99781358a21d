#include "guest/grant/numbering.hpp"

#include <cstdint>

#include "guest/bare/text.hpp"
#include "guest/grant/text.hpp"

namespace headgate::grant {
namespace {

constexpr std::uint64_t kMostDevices = 1024;

std::string_view part(std::string_view list, std::uint64_t index) {
  for (; index > 0 && !list.empty(); --index) list = from(list, position(list, ',') + 1);
  return trimmed(first(list, position(list, ',')));
}

// "-1" hides all that follows it.
bool is_number(std::string_view token) {
  if (token == "-1") return true;
  for (const char c : token)
    if (!is_digit(c)) return false;
  return !token.empty();
}

}  // namespace

bool number_by_share(std::string_view visible, std::string_view gpus, std::span<char> buffer) {
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    if (!is_number(trimmed(first(rest, position(rest, ','))))) return false;
  }
  bare::Text text(buffer);
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    std::uint64_t number = 0;
    if (!whole_number(trimmed(first(rest, position(rest, ','))), kMostDevices, number)) break;
    const std::string_view gpu = part(gpus, number);
    if (gpu.empty()) break;
    if (text.size() != 0) text.add(',');
    text.add(gpu);
  }
  if (text.size() == 0) text.add("-1");
  return !text.full();
}

}  // namespace headgate::grant
