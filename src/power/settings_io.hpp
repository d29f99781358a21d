// Reads and writes GPU settings through their queues. SettingsIo waits for each result, at most `patience`, so it is
// for a thread that may block. set_now() sets all GPUs at once and reports each change.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/control_queues.hpp"
#include "power/settings.hpp"

namespace headgate::power {

// Returns the locked clocks of a GPU, as far as `like` has them: those that the daemon locked last, because no driver
// reports them.
[[nodiscard]] Settings clocks_now(const ControlQueues& queues, std::uint32_t gpu, const Settings& like);

class SettingsIo {
 public:
  // `queues` must outlive it.
  explicit SettingsIo(ControlQueues& queues, std::chrono::milliseconds patience = std::chrono::milliseconds(4'500))
      : queues_(queues), patience_(patience) {}

  // Returns the index of a GPU named by UUID or index.
  [[nodiscard]] std::optional<std::uint32_t> index_of(const std::string& gpu) const;
  [[nodiscard]] ControlQueues& queues() const { return queues_; }

  // Runs one command after those already queued. Errors: those of ControlQueues; busy if there is no result in time.
  Result<Reading> command(std::uint32_t gpu, const Command& command, const Caller& caller);
  // Returns the present values of the controls in `like`; clocks as clocks_now().
  Result<Settings> read(std::uint32_t gpu, const Settings& like, const Caller& caller);
  // Sets all GPUs and reads each value back, because some accept a value and ignore it. Stops at the first error.
  Result<void> apply(const SettingsByGpu& wanted, const Caller& caller);

  struct Restored {
    SettingsByGpu left;   // settings that could not be restored
    std::string trouble;  // why; empty on success
  };
  // Sets each value, even if others fail.
  Restored restore(const SettingsByGpu& saved, const Caller& caller);

 private:
  ControlQueues& queues_;
  const std::chrono::milliseconds patience_;
};

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

// Sets GPUs without a lease, permanently: all GPUs at once, each through its queue. Skips unknown UUIDs. Calls `done`
// once with the GPUs in order: on a worker's thread, on the caller's if there is nothing to do, or on that of the
// returned function, which stops waiting and withdraws commands that have not started. `queues` must outlive all of
// them.
std::function<void(const std::string& patience)> set_now(ControlQueues& queues, const SettingsByGpu& wanted,
                                                         const SetOptions& options,
                                                         std::function<void(std::vector<GpuOutcome>)> done);

}  // namespace headgate::power
