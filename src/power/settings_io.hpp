// Reads and writes settings of GPUs through their queues, and waits for each answer: for a thread that may block. A GPU
// whose driver does not answer costs `patience`, not for ever.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "power/control_queues.hpp"
#include "power/settings.hpp"

namespace headgate::power {

class SettingsIo {
 public:
  // `queues` must outlive it.
  explicit SettingsIo(ControlQueues& queues, std::chrono::milliseconds patience = std::chrono::milliseconds(4'500))
      : queues_(queues), patience_(patience) {}

  // By UUID or index, as a caller names it.
  [[nodiscard]] std::optional<std::uint32_t> index_of(const std::string& gpu) const;
  [[nodiscard]] ControlQueues& queues() const { return queues_; }

  // One command, behind those that wait at the GPU. Errors: of ControlQueues, and busy where there is no answer in
  // time.
  Result<Reading> command(std::uint32_t gpu, const Command& command, const Caller& caller);
  // The present values of the controls that `like` names. No driver tells which clocks are locked: those that the
  // daemon locked last.
  Result<Settings> read(std::uint32_t gpu, const Settings& like, const Caller& caller);
  // Sets all GPUs and reads each back: some take a value and ignore it. Ends at the first error.
  Result<void> apply(const SettingsByGpu& wanted, const Caller& caller);

  struct Restored {
    SettingsByGpu left;   // of GPUs where something could not be set
    std::string trouble;  // why; empty: all is set
  };
  // Sets each value, whatever became of the others.
  Restored restore(const SettingsByGpu& saved, const Caller& caller);

 private:
  ControlQueues& queues_;
  const std::chrono::milliseconds patience_;
};

}  // namespace headgate::power
