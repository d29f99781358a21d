// Tells the user why programs of a run wait for the GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.hpp"
#include "cli/run/launch.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

// Behind another user's MPS server a program blocks in its first call of the driver, which tells it nothing. Says so on
// stderr at once and then every `pause`, until the daemon says that it would not wait; not with --quiet.
class GpuWait {
 public:
  // `ask`: gets the run's entry again, on another thread.
  GpuWait(const Entry& entry, std::function<Result<Entry>()> ask, const Voice& voice,
          std::chrono::milliseconds pause = std::chrono::seconds(10));

 private:
  void follow(const std::stop_token& stop);

  std::function<Result<Entry>()> ask_;
  std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last, so that it ends before the rest
};

}  // namespace headgate::cli
