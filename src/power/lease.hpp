// A lease: settings of GPUs that end with their holder, and the values that are put back when it ends. Plain values and their
// JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "power/command.hpp"

namespace headgate::power {

// Of one GPU; what is empty is not part of the lease.
struct Settings {
  std::optional<std::uint32_t> power_limit_mw;
  std::optional<bool> persistence;
  std::optional<ClockRange> gpu_clocks, mem_clocks;  // {0, 0}: not locked
  std::optional<std::uint32_t> compute_mode;         // 0, 2 or 3, as NVML numbers them
  friend bool operator==(const Settings&, const Settings&) = default;

  [[nodiscard]] bool empty() const { return *this == Settings{}; }
};

// In the order in which they are to be done: persistence first, so that nothing set after it is forgotten.
[[nodiscard]] std::vector<Command> commands_to_apply(const Settings& settings);
// Persistence last, for the same reason. Least and greatest clock are one command: they never cross.
[[nodiscard]] std::vector<Command> commands_to_restore(const Settings& saved);
// Whether both name a control; then the first such one, for messages: "power limit".
[[nodiscard]] std::optional<std::string> common_control(const Settings& a, const Settings& b);
// Whether the command writes a control that the settings name.
[[nodiscard]] bool touches(const Settings& settings, const Command& command);

struct Lease {
  std::string id;
  std::vector<std::string> uuids;  // of its GPUs
  Settings wanted;
  std::map<std::string, Settings> saved;  // by UUID: what is still to be put back
  std::uint32_t owner_uid = 0;
  std::uint32_t holder_pid = 0;         // 0: none
  std::uint32_t holder_start_time = 0;  // so that another process of this number is not taken for it
  std::uint32_t ttl_s = 0;              // 0: none
  std::int64_t ends_at_s = 0;           // CLOCK_REALTIME; of one with a ttl
  bool ending = false;                  // its values are being put back
  friend bool operator==(const Lease&, const Lease&) = default;
};

struct LeaseRequest {
  std::vector<std::string> gpus;  // indices or UUIDs
  Settings wanted;
  std::uint32_t holder_pid = 0, ttl_s = 0;
  friend bool operator==(const LeaseRequest&, const LeaseRequest&) = default;
};

inline constexpr std::uint32_t kMaxTtlS = 30 * 86'400;

// {"gpus": [0, "GPU-..."], "settings": {...}, "holder_pid": N, "ttl_s": N}. Errors: usage, with the key and what is accepted.
[[nodiscard]] Result<LeaseRequest> parse_lease_request(std::string_view json);
[[nodiscard]] std::string lease_json(const Lease& lease);
[[nodiscard]] std::string leases_json(const std::vector<Lease>& leases);
// The inverse of leases_json(). Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<Lease>> parse_leases(std::string_view json);

}  // namespace headgate::power
