#include "power/test_recording_manager.hpp"

#include <stdexcept>

namespace headgate::power {

Result<Reading> RecordingManager::write(const Command& command) {
  const PowerRange range = *recording_.identity.limit_range;
  if (const auto limit_mw = command.power_limit_mw; command.operation == Operation::set_power_limit)
    if (limit_mw < range.min_mw || limit_mw > range.max_mw)
      return fail(ErrorCode::usage, "power limit " + watts_text(limit_mw) + ": the driver does not accept this value",
                  "accepted: " + watts_text(range.min_mw) + " to " + watts_text(range.max_mw));
  std::unique_lock lock(recording_.mutex_);
  recording_.inside_ = true;
  recording_.changed_.notify_all();
  recording_.changed_.wait(lock, [this] { return !recording_.shut_; });
  recording_.inside_ = false;
  if (std::exchange(recording_.throws_, false)) throw std::runtime_error("the test ends this thread");
  recording_.written_.push_back(command);
  if (const auto error = recording_.errors_.find(command.operation); error != recording_.errors_.end())
    return std::unexpected(error->second);
  if (command.operation == Operation::set_power_limit) recording_.limit_mw_ = command.power_limit_mw;
  if (command.operation == Operation::set_compute_mode) recording_.compute_mode_ = command.mode;
  if (command.operation == Operation::set_time_slice) recording_.time_slice_ = command.time_slice;
  if (command.operation == Operation::set_persistence_mode) recording_.persistence_ = command.enabled;
  return Reading{};
}

Result<Reading> RecordingManager::read_figure(Operation operation) {
  const std::lock_guard lock(recording_.mutex_);
  switch (operation) {
    case Operation::get_power:
      ++recording_.power_readings_;
      if (const auto error = recording_.errors_.find(operation); error != recording_.errors_.end())
        return std::unexpected(error->second);
      return Reading{.value = recording_.power_mw_};
    case Operation::get_cumulative_energy: return Reading{.value = recording_.energy_mj_};
    case Operation::get_power_limit: return Reading{.value = recording_.limit_mw_};
    case Operation::get_power_limit_constraints:
      return Reading{.value = recording_.identity.limit_range->min_mw,
                     .second = recording_.identity.limit_range->max_mw};
    case Operation::get_compute_mode: return Reading{.value = recording_.compute_mode_};
    case Operation::get_time_slice: return Reading{.value = recording_.time_slice_};
    default: return Reading{.value = recording_.persistence_};
  }
}

Result<Reading> RecordingManager::perform(const Command& command) {
  if (command.operation == Operation::reset_locked_clocks) return reset_each_clocks(*this);
  return is_write(command.operation) ? write(command) : read_figure(command.operation);
}

}  // namespace headgate::power
