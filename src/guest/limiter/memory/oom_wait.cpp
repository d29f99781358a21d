#include "guest/limiter/memory/oom_wait.hpp"

#include <time.h>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/ledger/oom_wait.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/registration.hpp"

namespace headgate::limiter {
namespace {

constexpr std::uint32_t kWaitEvent = 58;  // of may_say()

bool can_ever_fit(const Place& place, std::uint64_t bytes) {
  if (bytes > granted_bytes(place.device_index)) return false;
  std::size_t total = 0;
  return forward(driver.cuDeviceTotalMem_v2, &total, place.device) != abi::CUDA_SUCCESS || bytes <= total;
}

std::atomic<std::int64_t> told_at;

// Without waiting, a program that keeps requesting on a full card reports that once a second.
bool tell_now_and_then(std::int64_t now) {
  std::int64_t last = told_at.load(std::memory_order_relaxed);
  return (last == 0 || now - last >= ledger::kTellWantEachNs) && told_at.compare_exchange_strong(last, now);
}

void ring(const Place& place, std::uint64_t bytes, Lack lack) {
  ledger::note_want(*session.usage, place.device_index, own_slot(), bytes, lack == Lack::card);
  ring_doorbell(ledger::Ring::memory);
}

// Two processes that lack card memory give the share's memory back each time the driver fails them. Woken by that, they
// would wake each other endlessly.
void rest() {
  const timespec shortly{0, 20'000'000};
  ::nanosleep(&shortly, nullptr);
}

void say(const char* how, const Place& place, std::uint64_t bytes, std::int64_t waited_ns) {
  log_line(LogLevel::warn, "share %s: %lu bytes on GPU %u waited %lu ms and are refused: %s", session.held.name,
           static_cast<unsigned long>(bytes), place.device_index, static_cast<unsigned long>(waited_ns / 1'000'000),
           how);
}

}  // namespace

bool OomWait::begin(const Place& place, std::uint64_t bytes, Lack lack) {
  std::uint32_t patience_ms = session.policy->oom_wait_ms.load(std::memory_order_relaxed);
  if (patience_ms == 0) {
    // The owner of idle pools may free memory for the next request.
    if (lack == Lack::card && tell_now_and_then(coarse_now_ns())) ring(place, bytes, lack);
    return false;
  }
  if (!can_ever_fit(place, bytes)) return false;
  if (patience_ms > ledger::kLongestOomWaitMs) patience_ms = ledger::kLongestOomWaitMs;
  begun_ = true;
  denials_ = session.policy->oom_denials.load(std::memory_order_acquire);
  began_ns_ = bare::now_ns();
  ends_ns_ = began_ns_ + patience_ms * 1'000'000ll;
  if (may_say(kWaitEvent))
    log_line(LogLevel::info, "share %s: %lu bytes on GPU %u wait for memory, %u ms at most", session.held.name,
             static_cast<unsigned long>(bytes), place.device_index, patience_ms);
  return true;
}

void OomWait::tell(const Place& place, std::uint64_t bytes, Lack lack, std::int64_t now) {
  if (told_ns_ != 0 && now - told_ns_ < ledger::kTellWantEachNs) return;
  told_ns_ = now;
  ring(place, bytes, lack);
}

bool OomWait::again(const Place& place, std::uint64_t bytes, Lack lack) {
  in_flight.end();
  if (place.standing != Standing::held || !seated()) return false;
  const bare::KeepErrno keep_errno;
  bool more = begun_ || begin(place, bytes, lack);
  if (more && lacked_ == Lack::card) rest();
  else if (more && armed_ != 0) ledger::wait_for_release(*session.usage, armed_);
  if (more) {
    const std::int64_t now = bare::now_ns();
    const char* why = nullptr;
    if (ledger::is_draining(*session.policy)) why = "the share is being drained";
    else if (session.policy->oom_denials.load(std::memory_order_acquire) != denials_) why = "it was denied";
    else if (now >= ends_ns_) why = "no memory came";
    if (why != nullptr) say(why, place, bytes, now - began_ns_);
    more = why == nullptr;
    if (more) tell(place, bytes, lack, now);
    // Set before the caller looks: memory given back after that look wakes the next sleep.
    if (more && lack == Lack::share) armed_ = ledger::expect_release(*session.usage);
    lacked_ = lack;
  }
  return more;
}

}  // namespace headgate::limiter
