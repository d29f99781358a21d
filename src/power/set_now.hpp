// Settings without a lease: they stay. All GPUs at once, each through its queue; what is or would be other than before
// is told for each.
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
  std::optional<Error> error;  // the first; what else was asked of this GPU was tried all the same
};

struct SetOptions {
  Caller caller;
  bool dry_run = false;           // reads only, and tells what would be
  bool skip_unsupported = false;  // a control that a GPU does not have is no error: of a reset
};

// UUIDs that no GPU has are passed over. `done` is called once, with the GPUs in their order: on a worker's thread, on
// the caller's where nothing is to be done, or on that of the function that is returned, which ends the waiting: what
// has not started is then withdrawn. `queues` must outlive all of them.
std::function<void(const std::string& patience)> set_now(ControlQueues& queues, const SettingsByGpu& wanted,
                                                         const SetOptions& options,
                                                         std::function<void(std::vector<GpuOutcome>)> done);

}  // namespace headgate::power
