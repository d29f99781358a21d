#include "guest/limiter/memory/in_flight_bytes.hpp"

namespace headgate::limiter {

constinit std::atomic<std::uint32_t> in_flight_calls[ledger::kMaxDevices + 1];

void in_flight_reset_after_fork() {
  for (auto& count : in_flight_calls) count.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
