// The external scheduler: an agent of the task channel. headgated asks it whether a process may enter a share
// (--admit=ask), and notifies it of allocations that wait for memory (--on-oom=wait). Protocol: docs/channel.md.
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

  // `patience`: how long to wait for an answer before the process is refused.
  Scheduler(channel::Channel& channel, observe::EventLog& events, std::chrono::milliseconds patience)
      : channel_(channel), events_(events), patience_(patience) {}

  // Limits of its channel: one question for each process that may be waiting at a share's socket, and one for each
  // share short of memory. So no user's questions can crowd out another's. Some KiB each.
  [[nodiscard]] static channel::TaskLimits limits(const tenancy::ConnectionBounds& doors) {
    return {.open_per_client = doors.waiting + tenancy::kMaxShares};
  }

  // Asks whether `tenant` may enter. Calls `decide` once: success; denied with the scheduler's words, or the reason why
  // there was no answer; immediately no_capacity if too many questions are open. The returned function withdraws the
  // question; then `decide` is not called. Events: admit.asked, admit.allowed, admit.denied, admit.withdrawn.
  tenancy::RegistrationServer::TakeBack admit(const tenancy::Share& share, const tenancy::TenantProcess& tenant,
                                              std::function<void(Result<void>)> decide);

  // Reports a memory shortage. Calls `denied` if the scheduler says no; a yes or no answer at all changes nothing. One
  // open question per share.
  void tell_of_want(const node::MemoryShortage& shortage, const tenancy::Share& share, std::chrono::milliseconds waits,
                    std::function<void()> denied);

  // Drops questions about a removed share, so that they do not apply to a later share with the same name.
  void forget(const std::string& share);

 private:
  channel::Channel& channel_;
  observe::EventLog& events_;
  const std::chrono::milliseconds patience_;
  struct Want {
    channel::TaskId question = 0;
    std::shared_ptr<bool> moot;  // set: the answer is to be ignored
  };
  std::map<std::string, Want> open_wants_;  // by share
};

}  // namespace headgate::api
