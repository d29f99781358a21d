// What one launch's wait at the gate leaves behind: its time in the share's account and, where it takes seconds, a line for the
// program's user and a note in the slot for whoever asks from outside.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/process.hpp"

namespace headgate::limiter {

enum class WaitReason : std::uint32_t {
  pause,    // the share is paused
  turn,     // other shares have the GPU
  ceiling,  // the share has used its part of the GPU's time
  work,     // what the process has sent before is not done
};

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
  // The launch may pass: what it has waited is the share's throttled time.
  void passes() const;

 private:
  const ContextMeter& context_;
  const std::int64_t asked_ns_;
  bool begun_ = false, noted_ = false;
};

}  // namespace headgate::limiter
