#include "guest/grant/numbering.hpp"

#include <cstdint>

#include "guest/bare/text.hpp"
#include "guest/grant/text.hpp"

namespace headgate::grant {
namespace {

constexpr std::uint64_t kMaxOrdinal = 1024;

std::string_view part(std::string_view list, std::uint64_t index) {
  for (; index > 0 && !list.empty(); --index) list = from(list, position(list, ',') + 1);
  return trimmed(first(list, position(list, ',')));
}

// "-1" counts as a number: it hides everything after it.
bool is_number(std::string_view token) {
  if (token == "-1") return true;
  for (const char c : token)
    if (!is_digit(c)) return false;
  return !token.empty();
}

// Returns the prefix of the one UUID in the list that matches the token ignoring case, in the list's spelling. Returns
// the token if none or several match.
std::string_view spelled(std::string_view token, std::string_view gpus) {
  std::string_view found;
  for (std::string_view rest = gpus; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    const std::string_view gpu = trimmed(first(rest, position(rest, ',')));
    if (!starts_ignoring_case(gpu, token)) continue;
    if (!found.empty()) return token;
    found = first(gpu, token.size());
  }
  return found.empty() ? token : found;
}

// Returns whether a UUID in the list starts with the token, ignoring case. "GPU-" alone matches none.
bool begins_one(std::string_view token, std::string_view gpus) {
  if (token.size() <= 4) return false;
  for (std::string_view rest = gpus; !rest.empty(); rest = from(rest, position(rest, ',') + 1))
    if (starts_ignoring_case(trimmed(first(rest, position(rest, ','))), token)) return true;
  return false;
}

}  // namespace

bool number_by_share(std::string_view visible, std::string_view gpus, std::span<char> buffer) {
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    if (!is_number(trimmed(first(rest, position(rest, ','))))) return false;
  }
  bare::Text text(buffer);
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    std::uint64_t number = 0;
    if (!whole_number(trimmed(first(rest, position(rest, ','))), kMaxOrdinal, number)) break;
    const std::string_view gpu = part(gpus, number);
    if (gpu.empty()) break;
    if (text.size() != 0) text.add(',');
    text.add(gpu);
  }
  if (text.size() == 0) text.add("-1");
  return !text.full();
}

bool spell_as_share(std::string_view visible, std::string_view gpus, std::span<char> buffer) {
  bare::Text text(buffer);
  bool changed = false;
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    const std::string_view written = first(rest, position(rest, ',')), token = trimmed(written);
    const bool is_uuid = token.size() > 4 && starts_ignoring_case(token, "GPU-");
    const std::string_view name = is_uuid ? spelled(token, gpus) : token;
    changed |= name != token;
    text.add(name);
    if (written.size() < rest.size()) text.add(',');
  }
  return changed && !text.full();
}

bool cut_to_share(std::string_view visible, std::string_view gpus, std::span<char> buffer) {
  bare::Text text(buffer);
  bool changed = false;
  for (std::string_view rest = visible; !rest.empty(); rest = from(rest, position(rest, ',') + 1)) {
    const std::string_view token = trimmed(first(rest, position(rest, ',')));
    std::uint64_t number = 0;
    std::string_view name = token;
    if (whole_number(token, kMaxOrdinal, number)) name = part(gpus, number);
    else if (!starts_ignoring_case(token, "MIG-") && !begins_one(token, gpus)) name = {};
    changed |= name != token;
    if (name.empty()) break;
    text.add(text.size() == 0 ? "" : ",").add(name);
  }
  if (text.size() == 0) text.add("-1");
  return changed && !text.full();
}

}  // namespace headgate::grant
