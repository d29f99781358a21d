#include "guest/limiter/memory/context_turn.hpp"

#include <time.h>
#include <unistd.h>

#include "guest/bare/clock.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

// The word: the holder's pid (Linux: below 2^22), the low bits of its pid namespace's inode, and when the turn ends, in
// ticks of the host's clock that wrap.
constexpr unsigned kPidBits = 22, kNamespaceBits = 16, kTimeBits = 26, kTickShift = 28;
constexpr std::uint64_t mask(unsigned bits) { return (1ull << bits) - 1; }
constexpr std::uint64_t kTurnTicks = (ContextTurn::kTurnNs >> kTickShift) + 1;

std::uint64_t now_ticks() { return static_cast<std::uint64_t>(bare::host_ns()) >> kTickShift; }

std::uint64_t own_word() {
  const std::uint64_t pid = static_cast<std::uint64_t>(::getpid()) & mask(kPidBits);
  return pid | (own_namespace() & mask(kNamespaceBits)) << kPidBits |
         ((now_ticks() + kTurnTicks) & mask(kTimeBits)) << (kPidBits + kNamespaceBits);
}

// Any tenant can write a time that never comes.
bool is_over(std::uint64_t word) {
  const std::uint64_t left = ((word >> (kPidBits + kNamespaceBits)) - now_ticks()) & mask(kTimeBits);
  return left == 0 || left > kTurnTicks;
}

// Threads of this process between their try to take a turn and its end.
std::atomic<std::uint32_t> holders{0};

// A container that starts again may have the pid and the namespace of the one that died.
bool is_dead(std::uint64_t word) {
  const std::uint32_t here = own_namespace();
  if ((word >> kPidBits & mask(kNamespaceBits)) != (here & mask(kNamespaceBits))) return false;
  const auto pid = static_cast<std::uint32_t>(word & mask(kPidBits));
  if (pid == static_cast<std::uint32_t>(::getpid())) return holders.load() == 0;
  return !ledger::is_alive({.pid = pid, .pidns_inode = here, .start_time = 0}, here);
}

std::atomic<std::uint64_t>& turn_of(std::uint32_t device) {
  ledger::GpuPage* const page = users_gpu_page(device);
  return page != nullptr ? page->context_turn : session.usage->context_turn;
}

}  // namespace

bool ContextTurn::take(std::uint32_t device, bool checks) {
  std::atomic<std::uint64_t>& turn = turn_of(device);
  std::uint64_t seen = turn.load(std::memory_order_acquire);
  if (seen != 0 && !is_over(seen) && !(checks && is_dead(seen))) return false;
  const std::uint64_t ours = own_word();
  holders.fetch_add(1);
  if (!turn.compare_exchange_strong(seen, ours)) {
    holders.fetch_sub(1);
    return false;
  }
  device_index_ = device;
  held_ = ours;
  return true;
}

void ContextTurn::leave() {
  if (held_ == 0) return;
  turn_of(device_index_).compare_exchange_strong(held_, 0);  // unless another has taken it since
  held_ = 0;
  holders.fetch_sub(1);
}

void ContextTurn::rest() {
  const timespec shortly{0, kLookEveryNs};
  ::nanosleep(&shortly, nullptr);
}

void context_turn_reset_after_fork() { holders.store(0); }

}  // namespace headgate::limiter
