// Bytes in flight between ledger and driver: reserved but not yet allocated, or freed but not yet given back. Meanwhile
// the ledger holds more for this process than the driver, which would hide as much of its residual. This may last: a
// thread can be descheduled, and a free waits for kernels.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

inline constexpr std::uint32_t kAnyDevice = ~0u;
extern std::atomic<std::uint32_t> in_flight_calls[ledger::kMaxDevices + 1];  // last: kAnyDevice

// Thread-safe. A false "no" is impossible if the caller reads the slot's `sequence` on the right side of this call
// (refresh_residual()).
inline bool is_in_flight(std::uint32_t device_index) {
  return in_flight_calls[device_index].load(std::memory_order_acquire) != 0 ||
         in_flight_calls[ledger::kMaxDevices].load(std::memory_order_acquire) != 0;
}

// For one thread: begins before its first change on either side, and ends after the last. begin() does nothing while
// already in flight. Accounts of host memory have no residual and are ignored.
class InFlightBytes {
 public:
  InFlightBytes() = default;
  explicit InFlightBytes(std::uint32_t account) { begin(account); }
  ~InFlightBytes() { end(); }
  InFlightBytes(const InFlightBytes&) = delete;
  InFlightBytes& operator=(const InFlightBytes&) = delete;

  void begin(std::uint32_t account) {
    if (at_ != nullptr || (account >= ledger::kMaxDevices && account != kAnyDevice)) return;
    at_ = &in_flight_calls[account == kAnyDevice ? ledger::kMaxDevices : account];
    at_->fetch_add(1);
  }
  void end() {
    if (at_ == nullptr) return;
    at_->fetch_sub(1);
    at_ = nullptr;
  }

 private:
  std::atomic<std::uint32_t>* at_ = nullptr;
};

void in_flight_reset_after_fork();

}  // namespace headgate::limiter
