// A lease: settings of GPUs that end with their holder, and the values that are put back when it ends. Plain values and
// their JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "power/settings.hpp"

namespace headgate::power {

struct Lease {
  std::string id;
  SettingsByGpu wanted;
  SettingsByGpu saved;  // what is still to be put back
  std::uint32_t owner_uid = 0;
  std::uint32_t holder_pid = 0;         // 0: none
  std::uint32_t holder_start_time = 0;  // so that another process of this number is not taken for it
  std::uint32_t ttl_s = 0;              // 0: none
  std::int64_t ends_at_s = 0;           // CLOCK_REALTIME; of one with a ttl
  bool ending = false;                  // its values are being put back
  // Of a client of zeusd's wire: it sets what it wants, and the values from before its first write are put back.
  bool session = false;
  // The daemon's: persistence is given up so that the GPUs can be reset, and then all their settings are put back.
  bool pauses = false;
  friend bool operator==(const Lease&, const Lease&) = default;

  [[nodiscard]] std::set<std::string> uuids() const;  // of its GPUs
  // Whether it has a control of this GPU that the command writes.
  [[nodiscard]] bool holds(const std::string& uuid, const Command& command) const;
  // The first control of the settings that it has on this GPU: "power limit".
  [[nodiscard]] std::optional<std::string> shared_control(const std::string& uuid, const Settings& settings) const;
};

// "lease 3fa0 of uid 1000 (process 4711)": for logs, events and refusals.
[[nodiscard]] std::string describe(const Lease& lease);

[[nodiscard]] std::string lease_json(const Lease& lease);
[[nodiscard]] std::string leases_json(const std::vector<Lease>& leases);
// The inverse of leases_json(). Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<Lease>> parse_leases(std::string_view json);

}  // namespace headgate::power
