// What one launch's wait at the gate leaves behind: its time in the share's account and, where it takes seconds, a line for the
// program's user and a note in the slot for whoever asks from outside.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/process.hpp"

namespace headgate::limiter {

using ledger::WaitReason;

class GateWait {
 public:
  // asked_ns: when the launch was first asked for.
  GateWait(const ContextMeter& context, std::int64_t asked_ns) : context_(context), asked_ns_(asked_ns) {}
  ~GateWait();
  GateWait(const GateWait&) = delete;
  GateWait& operator=(const GateWait&) = delete;

  // Before each sleep. Says at most once a minute a process, at level warn, that a launch has waited for kLongWaitNs, and why.
  void goes_on(WaitReason reason);
  [[nodiscard]] bool begun() const { return begun_; }
  // The launch may pass: what it has waited is the share's throttled time, each stretch by what was waited for in it.
  void passes();

 private:
  void waited_until(std::int64_t now_ns);

  const ContextMeter& context_;
  const std::int64_t asked_ns_;
  bool begun_ = false, noted_ = false;
  WaitReason reason_ = WaitReason::work;  // since since_ns_
  std::int64_t since_ns_ = 0;
  std::int64_t waited_ns_[ledger::kWaitReasons] = {};
};

}  // namespace headgate::limiter
