// [[power.grant]] of the configuration: who may set which GPUs to what, besides those whose GPUs they are.
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
  std::vector<std::string> users, groups;  // names or numbers; one of both lists has an entry
  std::vector<std::string> gpus;           // indices or UUIDs; empty: all
  std::optional<Range> milliwatts;         // of the power limit; empty: it may not be set
  std::optional<Range> mhz, memory_mhz;    // of locked clocks, which may be reset too; empty: not
  bool persistence = false;
  std::string origin;  // "/etc/headgate/config.toml:12"

  friend bool operator==(const PowerGrant&, const PowerGrant&) = default;
};

}  // namespace headgate::config
