#include "guest/limiter/memory/transit.hpp"

namespace headgate::limiter {

constinit std::atomic<std::uint32_t> transits[ledger::kMaxDevices + 1];

void transit_reset_after_fork() {
  for (auto& count : transits) count.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
