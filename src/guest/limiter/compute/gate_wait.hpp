// Reports one launch's wait at the gate: its time in the share's account, by reason, and after some seconds a log line
// for the program's user and a note in the slot for views.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

using ledger::WaitReason;

class GateWait {
 public:
  // asked_ns: when the launch was requested. told_until_ns: until when its wait has been reported, asked_ns at first;
  // updated, because a launch may wait again for another stream.
  GateWait(const ContextMeter& context, std::int64_t asked_ns, std::int64_t& told_until_ns)
      : context_(context), asked_ns_(asked_ns), told_until_ns_(told_until_ns) {}
  ~GateWait();
  GateWait(const GateWait&) = delete;
  GateWait& operator=(const GateWait&) = delete;

  // Call before each sleep, of at most 10 ms. Adds the wait to the share's account while it lasts: a launch without a
  // turn for minutes must show as waiting, not idle. Logs at most once a minute per process, at level warn, that a
  // launch has waited for kLongWaitNs, and why.
  void goes_on(WaitReason reason);
  [[nodiscard]] bool begun() const { return begun_; }
  // Call when the launch may pass: counts it by its waiting time.
  void passes();

 private:
  void waited_until(std::int64_t now_ns);
  void tell_account();

  const ContextMeter& context_;
  const std::int64_t asked_ns_;
  std::int64_t& told_until_ns_;
  bool begun_ = false, noted_ = false;
  WaitReason reason_ = WaitReason::work;               // since told_until_ns_
  std::int64_t waited_ns_[ledger::kWaitReasons] = {};  // not yet added to the account
};

}  // namespace headgate::limiter
