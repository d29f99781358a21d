#include "power/recording_manager.hpp"

#include <stdexcept>

namespace headgate::power {

Result<void> RecordingManager::write(const Command& command) {
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
  return {};
}

Result<void> RecordingManager::set_persistence_mode(bool enabled) {
  return write({.operation = Operation::set_persistence_mode, .enabled = enabled});
}
Result<void> RecordingManager::set_power_limit(std::uint32_t limit_mw) {
  const PowerRange range = *recording_.identity.limit_range;
  if (limit_mw < range.min_mw || limit_mw > range.max_mw)
    return fail(ErrorCode::usage, "power limit " + watts_text(limit_mw) + ": the driver does not accept this value",
                "accepted: " + watts_text(range.min_mw) + " to " + watts_text(range.max_mw));
  return write({.operation = Operation::set_power_limit, .power_limit_mw = limit_mw});
}
Result<void> RecordingManager::set_gpu_locked_clocks(ClockRange clocks) {
  return write({.operation = Operation::set_gpu_locked_clocks, .clocks = clocks});
}
Result<void> RecordingManager::set_mem_locked_clocks(ClockRange clocks) {
  return write({.operation = Operation::set_mem_locked_clocks, .clocks = clocks});
}
Result<void> RecordingManager::reset_gpu_locked_clocks() {
  return write({.operation = Operation::reset_gpu_locked_clocks});
}
Result<void> RecordingManager::reset_mem_locked_clocks() {
  return write({.operation = Operation::reset_mem_locked_clocks});
}

Result<void> RecordingManager::set_compute_mode(std::uint32_t mode) {
  return write({.operation = Operation::set_compute_mode, .mode = mode});
}

Result<void> RecordingManager::set_time_slice(std::uint32_t length) {
  return write({.operation = Operation::set_time_slice, .time_slice = length});
}

Result<std::uint32_t> RecordingManager::instant_power_mw() {
  const std::lock_guard lock(recording_.mutex_);
  ++recording_.power_readings_;
  if (const auto error = recording_.errors_.find(Operation::get_power); error != recording_.errors_.end())
    return std::unexpected(error->second);
  return recording_.power_mw_;
}
Result<std::uint64_t> RecordingManager::total_energy_mj() {
  const std::lock_guard lock(recording_.mutex_);
  return recording_.energy_mj_;
}
Result<std::uint32_t> RecordingManager::power_limit_mw() {
  const std::lock_guard lock(recording_.mutex_);
  return recording_.limit_mw_;
}
Result<PowerRange> RecordingManager::power_limit_range() { return *recording_.identity.limit_range; }
Result<std::uint32_t> RecordingManager::compute_mode() {
  const std::lock_guard lock(recording_.mutex_);
  return recording_.compute_mode_;
}
Result<std::uint32_t> RecordingManager::time_slice() {
  const std::lock_guard lock(recording_.mutex_);
  return recording_.time_slice_;
}
Result<bool> RecordingManager::persistence_mode() {
  const std::lock_guard lock(recording_.mutex_);
  return recording_.persistence_;
}

}  // namespace headgate::power
