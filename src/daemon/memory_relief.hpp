// Relieves shares whose allocations lack memory: idle shares are asked to trim their pools, the scheduler is told.
#pragma once

#include <string>

#include "daemon/node_host.hpp"
#include "daemon/scheduler_channel.hpp"
#include "node/memory_pressure.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

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
