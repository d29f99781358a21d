// When a launch that waits for its share's turn rings the arbiter's doorbell. Each ring is a wake-up of its thread.
#pragma once

#include <cstdint>

#include "guest/ledger/gate.hpp"

namespace headgate::limiter {

class RingTime {
 public:
  // Call at each look at a closed gate; returns whether to ring now. `queued`: the gate says that the arbiter has seen
  // the launch. `without_beat_ns`: for how long the daemon gave no heartbeat. A queued launch rings only without one.
  bool is_due(bool queued, std::int64_t without_beat_ns, std::int64_t now_ns) {
    if (queued && without_beat_ns < kLostNs) rang_ns_ = now_ns;
    if (now_ns - rang_ns_ < ledger::kTurnLookNs) return false;
    rang_ns_ = now_ns;
    return true;
  }

 private:
  static constexpr std::int64_t kLostNs = 2 * ledger::kTurnLookNs;  // while a launch waits, one comes each kTurnLookNs
  std::int64_t rang_ns_ = 0;                                        // last ring, or when a queued launch would ring
};

}  // namespace headgate::limiter
