// A GPU manager for tests that records commands and returns prepared answers. Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "power/command.hpp"
#include "power/gpu_manager.hpp"

namespace headgate::power {

// State shared by a recording manager and its test, which outlives the manager.
class Recording {
 public:
  explicit Recording(std::uint32_t index = 0) {
    identity.name = "Test GPU " + std::to_string(index);
    identity.uuid = "GPU-test-" + std::to_string(index);
    identity.pci_address = "0000:0" + std::to_string(index % 10) + ":00.0";
    identity.has_energy_counter = true;
    identity.limit_range = PowerRange{100'000, 300'000};
    identity.default_limit_mw = 250'000;
  }

  GpuIdentity identity;

  // Returns the setter calls, in order.
  [[nodiscard]] std::vector<Command> written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }
  void fail_with(Operation operation, Error error) {
    const std::lock_guard lock(mutex_);
    errors_[operation] = std::move(error);
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    errors_.clear();
  }
  // Makes the next setter throw, which ends its worker.
  void throw_next() {
    const std::lock_guard lock(mutex_);
    throws_ = true;
  }
  // Blocks setters until open() is called.
  void shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    shut_ = false;
    changed_.notify_all();
  }
  // Blocks until a setter is blocked by shut().
  void await_caller() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_; });
  }
  void set_power(std::uint32_t power_mw) {
    const std::lock_guard lock(mutex_);
    power_mw_ = power_mw;
  }
  void set_energy(std::uint64_t energy_mj) {
    const std::lock_guard lock(mutex_);
    energy_mj_ = energy_mj;
  }
  [[nodiscard]] std::uint64_t power_readings() const {
    const std::lock_guard lock(mutex_);
    return power_readings_;
  }

 private:
  friend class RecordingManager;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> written_;
  std::map<Operation, Error> errors_;
  bool throws_ = false, shut_ = false, inside_ = false;
  std::uint32_t power_mw_ = 150'000, limit_mw_ = 100'000;
  std::uint64_t energy_mj_ = 500'000, power_readings_ = 0;
  bool persistence_ = true;
  std::uint32_t compute_mode_ = 0, time_slice_ = 0;
};

class RecordingManager final : public GpuManager {
 public:
  explicit RecordingManager(Recording& recording) : recording_(recording) {}

  [[nodiscard]] const GpuIdentity& identity() const override { return recording_.identity; }

  Result<Reading> perform(const Command& command) override;

 private:
  Result<Reading> write(const Command& command);
  Result<Reading> read_figure(Operation operation);

  Recording& recording_;
};

// Returns one manager per recording, in order. The recordings must outlive them.
template <typename Recordings>
[[nodiscard]] std::vector<std::unique_ptr<GpuManager>> recording_managers(Recordings& recordings) {
  std::vector<std::unique_ptr<GpuManager>> managers;
  for (auto& recording : recordings) managers.push_back(std::make_unique<RecordingManager>(recording));
  return managers;
}

}  // namespace headgate::power
