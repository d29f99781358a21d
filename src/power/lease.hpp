// A lease: GPU settings that end with their holder, and the values restored at its end. Plain values, their JSON, and
// their file.
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
  SettingsByGpu saved;  // what is left to restore
  std::uint32_t owner_uid = 0;
  std::uint32_t holder_pid = 0;         // 0: none
  std::uint32_t holder_start_time = 0;  // detects a reused PID
  std::uint32_t ttl_s = 0;              // 0: none
  std::int64_t ends_at_s = 0;           // CLOCK_REALTIME; with a TTL
  bool ending = false;                  // its values are being restored
  // A zeusd client's session: the client sets values itself, and the values before its first write are restored.
  bool session = false;
  // The daemon's own: persistence is given up so that GPUs can be reset; then all their settings are restored.
  bool pauses = false;
  friend bool operator==(const Lease&, const Lease&) = default;

  [[nodiscard]] std::set<std::string> uuids() const;  // of its GPUs
  // Returns true if it has a control of this GPU that the command writes.
  [[nodiscard]] bool holds(const std::string& uuid, const Command& command) const;
  // Returns the first of these controls that it has on this GPU: "power limit".
  [[nodiscard]] std::optional<std::string> shared_control(const std::string& uuid, const Settings& settings) const;
};

// Returns "lease 3fa0 of uid 1000 (process 4711)": for logs, events and refusals.
[[nodiscard]] std::string describe(const Lease& lease);

[[nodiscard]] std::string lease_json(const Lease& lease);
[[nodiscard]] std::string leases_json(const std::vector<Lease>& leases);
// The inverse of leases_json(). Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<Lease>> parse_leases(std::string_view json);

// Read and replace the file that keeps leases across daemon restarts. A missing file has none. Errors: those of reading
// and writing; failed if its content is damaged. After an error the former file stays.
[[nodiscard]] Result<std::vector<Lease>> load_leases(const std::string& path);
[[nodiscard]] Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases);

}  // namespace headgate::power
