// [[power.grant]] of the configuration: further users that may change GPU settings, besides the GPUs' owners.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::config {

struct Range {
  std::uint32_t least = 0, most = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

struct PowerGrant {
  std::vector<std::string> users, groups;  // names or numbers; at least one entry in both together
  std::vector<std::string> gpus;           // indices or UUIDs; empty: all
  std::optional<Range> milliwatts;         // range for the power limit; empty: not permitted
  std::optional<Range> mhz, memory_mhz;    // ranges for locked clocks, which may also be reset; empty: not permitted
  bool persistence = false;
  std::string origin;  // "/etc/headgate/config.toml:12"

  friend bool operator==(const PowerGrant&, const PowerGrant&) = default;
};

}  // namespace headgate::config
