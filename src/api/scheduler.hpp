// The outside scheduler: an agent of the task channel that headgated asks whether a process may enter a share
// (--admit=ask), and tells of allocations that wait for memory (--on-oom=wait). docs/channel.md says what is asked and
// answered.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "channel/ask.hpp"
#include "node/memory_pressure.hpp"
#include "observe/event_log.hpp"
#include "tenancy/connection_limits.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/registration_server.hpp"
#include "tenancy/shares.hpp"

namespace headgate::api {

// For the loop's thread. Must live as long as the channel.
class Scheduler {
 public:
  static constexpr const char* kClient = "scheduler";

  // `patience`: for how long an answer is waited for; then it is no.
  Scheduler(channel::Channel& channel, observe::EventLog& events, std::chrono::milliseconds patience)
      : channel_(channel), events_(events), patience_(patience) {}

  // Of its channel. Each process that may wait at the doors can be asked about, and each share that may lack memory
  // told of: no user's questions keep another's from being asked. Some KiB each.
  [[nodiscard]] static channel::TaskLimits limits(const tenancy::ConnectionBounds& doors) {
    return {.open_per_client = doors.waiting + tenancy::kMaxShares};
  }

  // Whether `tenant` may enter. `decide` is called once: nothing; denied with the scheduler's words or why there were
  // none; at once no_capacity, where too many questions are open. What comes back takes the question back, and nobody
  // is told the answer then. Events: admit.asked, admit.allowed, admit.denied, admit.withdrawn.
  tenancy::RegistrationServer::TakeBack admit(const tenancy::Share& share, const tenancy::TenantProcess& tenant,
                                              std::function<void(Result<void>)> decide);

  // `denied` is called where the scheduler says no; a yes, and no answer, change nothing. One question a share at a
  // time.
  void tell_of_want(const node::MemoryShortage& shortage, const tenancy::Share& share, std::chrono::milliseconds waits,
                    std::function<void()> denied);

  // The share has been removed: what was asked for it is no question of the next one of its name.
  void forget(const std::string& share);

 private:
  channel::Channel& channel_;
  observe::EventLog& events_;
  const std::chrono::milliseconds patience_;
  struct Want {
    channel::TaskId question = 0;
    std::shared_ptr<bool> moot;  // no answer is wanted any more
  };
  std::map<std::string, Want> open_wants_;  // by share
};

}  // namespace headgate::api
