// The channel to an outside scheduler, which decides on processes that want to join and hears of memory shortages.
#pragma once

#include <chrono>
#include <optional>

#include "api/scheduler.hpp"
#include "base/result.hpp"
#include "daemon/context.hpp"
#include "tenancy/connection_limits.hpp"

namespace headgate::daemon {

// For the loop's thread.
class SchedulerChannel {
 public:
  // Errors: usage, for node.admit_timeout.
  [[nodiscard]] Result<void> open(Context& context);
  // Withdraws all questions.
  void close() { scheduler_.reset(), channel_.reset(); }

  [[nodiscard]] api::Scheduler* scheduler() { return scheduler_ ? &*scheduler_ : nullptr; }  // null: closed
  [[nodiscard]] channel::Channel& channel() { return *channel_; }
  // Returns bounds for share sockets, whose peers wait for the scheduler's answer.
  [[nodiscard]] const tenancy::ConnectionBounds& bounds() const { return bounds_; }

 private:
  tenancy::ConnectionBounds bounds_;
  std::optional<channel::Channel> channel_;
  std::optional<api::Scheduler> scheduler_;
};

}  // namespace headgate::daemon
