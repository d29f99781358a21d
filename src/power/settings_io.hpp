// Reads and writes GPU settings through their queues and waits for each result: for a thread that may block. A driver
// that does not answer costs at most `patience`.
#pragma once

#include <chrono>
#include <optional>
#include <string>

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

}  // namespace headgate::power
