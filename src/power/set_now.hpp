// Sets GPUs without a lease, permanently. All GPUs at once, each through its queue; reports each change made or
// proposed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/control_queues.hpp"
#include "power/settings.hpp"

namespace headgate::power {

struct Change {
  std::string control, from, to;  // "power limit", "350 W", "200 W"
  friend bool operator==(const Change&, const Change&) = default;
};

struct GpuOutcome {
  std::uint32_t index = 0;
  std::string uuid;
  std::vector<Change> changes;
  std::optional<Error> error;  // the first error; other settings of this GPU were still tried
};

struct SetOptions {
  Caller caller;
  bool dry_run = false;           // only reads, and reports what would change
  bool skip_unsupported = false;  // ignore controls that a GPU lacks: for a reset
};

// Skips unknown UUIDs. Calls `done` once with the GPUs in order: on a worker's thread, on the caller's if there is
// nothing to do, or on that of the returned function, which stops waiting and withdraws commands that have not started.
// `queues` must outlive all of them.
std::function<void(const std::string& patience)> set_now(ControlQueues& queues, const SettingsByGpu& wanted,
                                                         const SetOptions& options,
                                                         std::function<void(std::vector<GpuOutcome>)> done);

}  // namespace headgate::power
