// What one launch's wait at the gate leaves behind: its time in the share's account, by what was waited for, and, where
// it takes seconds, a line for the program's user and a note in the slot for whoever asks from outside.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

using ledger::WaitReason;

class GateWait {
 public:
  // asked_ns: when the launch was first asked for. told_until_ns: until when its wait is told, asked_ns at first; moved
  // on, for a launch may come to wait anew on another stream's behalf.
  GateWait(const ContextMeter& context, std::int64_t asked_ns, std::int64_t& told_until_ns)
      : context_(context), asked_ns_(asked_ns), told_until_ns_(told_until_ns) {}
  ~GateWait();
  GateWait(const GateWait&) = delete;
  GateWait& operator=(const GateWait&) = delete;

  // Before each sleep, of 10 ms at most. What it has waited goes into the share's account while it waits: who gets no
  // turn for minutes is seen to wait, and not to be idle. Says at most once a minute a process, at level warn, that a
  // launch has waited for kLongWaitNs, and why.
  void goes_on(WaitReason reason);
  [[nodiscard]] bool begun() const { return begun_; }
  // The launch may pass, and counts by how long it has waited.
  void passes();

 private:
  void waited_until(std::int64_t now_ns);
  void tell_account();

  const ContextMeter& context_;
  const std::int64_t asked_ns_;
  std::int64_t& told_until_ns_;
  bool begun_ = false, noted_ = false;
  WaitReason reason_ = WaitReason::work;               // since told_until_ns_
  std::int64_t waited_ns_[ledger::kWaitReasons] = {};  // that are not in the account yet
};

}  // namespace headgate::limiter
