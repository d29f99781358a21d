// How the ledger's words are packed and stored. For the ledger's own sources only.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/bare/short_lock.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/ledger/step.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace headgate::ledger {

// An operation of one slot, as an account word names it.
struct Operation {
  std::uint32_t slot;
  std::uint64_t sequence;
};
inline constexpr std::uint64_t kSequenceMask = (1ull << kSequenceBits) - 1;

inline std::uint64_t pack(Operation operation) {
  return std::uint64_t{operation.slot} << kSequenceBits | (operation.sequence & kSequenceMask);
}
inline Operation unpack_operation(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> kSequenceBits), word & kSequenceMask};
}

// Every store into a shared page goes through one of these, with a step() before it. Release order, so that a kill
// always leaves a prefix of the program's stores.
template <typename T>
void put(std::atomic<T>& word, T value, const char* name) {
  step(name);
  word.store(value, std::memory_order_release);
}
template <typename T>
bool swap(std::atomic<T>& word, T expected, T desired, const char* name) {
  step(name);
  return word.compare_exchange_strong(expected, desired, std::memory_order_seq_cst);
}
// A swap fails only because another succeeded. Far more failures in a row than a share has processes mean that a
// process stores there to block others. If the others give up, only its own share's account suffers.
inline constexpr int kMaxTries = 1 << 12;

template <typename T>
void raise(std::atomic<T>& word, T value, const char* name) {
  T now = word.load(std::memory_order_acquire);
  for (int tries = 0; now < value && tries < kMaxTries; ++tries) {
    step(name);
    if (word.compare_exchange_weak(now, value, std::memory_order_acq_rel, std::memory_order_acquire)) return;
  }
}

// A 16-byte compare-and-swap, inlined (-mcx16), never through libatomic. `word` is 16-byte aligned.
inline bool swap16(void* word, std::uint64_t expected_low, std::uint64_t expected_high, std::uint64_t low,
                   std::uint64_t high, const char* name) {
  step(name);
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
  // ThreadSanitizer replaces this builtin with a lock of its process, which orders nothing between processes. So use
  // the instruction itself and report to the sanitizer what the builtin would.
  __tsan_release(word);
  bool done;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(done), "+m"(*static_cast<unsigned __int128*>(word)), "+a"(expected_low), "+d"(expected_high)
               : "b"(low), "c"(high)
               : "memory");
  __tsan_acquire(word);
  return done;
#else
  using Wide = unsigned __int128;
  return __sync_bool_compare_and_swap(static_cast<Wide*>(word), Wide{expected_high} << 64 | expected_low,
                                      Wide{high} << 64 | low);
#endif
}

// An account word is read by halves; the swap above fails if they were not of the same moment.
inline std::uint64_t load_half(const std::uint64_t& half) { return __atomic_load_n(&half, __ATOMIC_ACQUIRE); }

// Records `operation` as done before it is overwritten.
inline void help(UsagePage& page, std::uint32_t device, Operation operation) {
  if (operation.slot >= kMaxSlots) return;
  raise(page.slots[operation.slot].devices[device].done, operation.sequence, "help: done");
}

// Returns whether `slot`'s operation `sequence` was applied to the account. Reads the account word before `done`: a
// process that replaces the word has raised `done` first.
inline bool applied(const UsagePage& page, std::uint32_t device, std::uint32_t slot, std::uint64_t sequence) {
  const Operation last = unpack_operation(load_half(page.memory[device].word.operation));
  if (last.slot == slot && last.sequence >= sequence) return true;
  return page.slots[slot].devices[device].done.load(std::memory_order_acquire) >= sequence;
}

// Calls act() for all accounts of the page: each device's own, and its host account.
template <typename Act>
void each_account(const UsagePage& page, Act act) {
  const std::uint32_t devices = page.device_count < kMaxDevices ? page.device_count : kMaxDevices;
  for (std::uint32_t device = 0; device < devices; ++device) {
    act(device);
    act(host_account(device));
  }
}

// By account: orders the threads of this process on it.
extern bare::ShortLock process_locks[kMaxAccounts];

// Takes `bytes` off the account as `operation`, unless already done (slot.cpp). Returns false, with nothing taken,
// after kMaxTries.
bool take_off(UsagePage& page, std::uint32_t device, Operation operation, std::uint64_t bytes);

}  // namespace headgate::ledger
