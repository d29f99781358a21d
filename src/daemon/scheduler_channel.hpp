// The channel to an outside scheduler, which decides on processes that want to join and hears of memory shortages.
#pragma once

#include <optional>
#include <string>

#include "api/scheduler.hpp"
#include "base/result.hpp"
#include "daemon/context.hpp"
#include "daemon/node_host.hpp"
#include "node/memory_pressure.hpp"
#include "observe/observer.hpp"
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

// Relieves shares whose allocations lack memory: idle shares are asked to trim their pools, the scheduler is told.
// For the loop's thread.
class MemoryRelief {
 public:
  MemoryRelief(observe::EventLog& events, node::Node& node, const observe::Observer& observer,
               SchedulerChannel& scheduler)
      : events_(events), node_(node), observer_(observer), scheduler_(scheduler) {}

  // Call it when a limiter of the share rings for memory.
  void look(const std::string& share);
  // Call it each second, for rings that do not come: a tenant may have closed the bell, or have another version of it.
  void look_at_all();
  void forget(const std::string& share) { pressure_.forget(share); }

 private:
  observe::EventLog& events_;
  node::Node& node_;
  const observe::Observer& observer_;
  SchedulerChannel& scheduler_;
  node::MemoryPressure pressure_;
};

}  // namespace headgate::daemon
