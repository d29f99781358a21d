// How checks report faults. For the ledger's own sources only.
#pragma once

#include <cstdint>
#include <string_view>

#include "guest/bare/text.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {

inline PageFault fault(PageError error, std::string_view what, std::uint64_t found = 0, std::uint64_t wanted = 0,
                       std::uint32_t device = kMaxDevices) {
  PageFault out;
  out.error = error;
  out.found = found;
  out.wanted = wanted;
  out.device = device;
  bare::Text(out.what).add(what);
  return out;
}

// Returns the text in a fixed field; if it is not terminated, the whole field.
template <std::size_t kSize>
std::string_view text_of(const char (&field)[kSize]) {
  std::size_t length = 0;
  while (length < kSize && field[length] != '\0') ++length;
  return {field, length};
}
template <std::size_t kSize>
bool is_terminated(const char (&field)[kSize]) {
  return text_of(field).size() < kSize;
}

// Copies what a grant gives on one GPU. Relaxed: announce it by an epoch.
void put_values(DevicePolicy& to, const DeviceGrant& from);

// Accepts [A-Za-z0-9_.-], not empty, not starting with a dot: it also becomes a directory's name.
bool is_share_name(std::string_view name);

// Checks whether a page of that kind and version follows.
PageFault check_header(const PageHeader& header, std::uint64_t magic, std::uint32_t version, const char* which);

// Compares the share with what the caller wants; reports the first difference, in the order of the fields.
PageFault compare(const ShareGrant& is, const ShareGrant& wanted);

}  // namespace headgate::ledger
