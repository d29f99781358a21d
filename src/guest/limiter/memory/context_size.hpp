// GPU memory of this process's contexts: measured for the node's first one, reserved before each later one, corrected by
// measurement, and given back as it was charged. Thread-safe: one short lock. Launches do not take it, and a reading
// before an allocation does not wait for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

// More than a context on the largest GPU takes; a larger measurement includes other memory.
inline constexpr std::uint64_t kLargestContext = 2ull << 30;

struct ContextSize {
  std::uint64_t bytes = 0;  // 0: unknown
  bool is_measured = false;
};

// Returns the size for this card and driver, as measured: from the share, else from the node (the daemon or this user's
// page of the GPU). If none is known, returns this process's guess.
ContextSize context_size(std::uint32_t device_index);

struct Context {
  abi::CUcontext handle = nullptr;  // null: free
  std::uint32_t device_index = 0;
  bool awaits_reading = false;
  std::uint64_t charged_bytes = 0;
  std::uint32_t leaving = 0;  // threads between context_may_leave() and its outcome
};

// Call when a context was created and `charged_bytes` are charged for it; the next reading gives its size. Returns
// false if they are to be given back: it is recorded already, with its charge, or the handle is null.
bool context_came(abi::CUcontext handle, std::uint32_t device_index, std::uint64_t charged_bytes, bool is_primary);

// Call before a context may be destroyed: no thread of ours uses the handle from here on. Returns false if it is not
// recorded. Several threads may do so for one context.
bool context_may_leave(abi::CUcontext handle);
// Call if it was not destroyed.
void context_stays(abi::CUcontext handle);
// Call if it was destroyed: returns what was charged for it, once. 0 if a new context has its handle since.
std::uint64_t context_left(abi::CUcontext handle);
// The same for one that is not recorded, as there were too many: the average of those on that device. 0: none are.
// Never a primary one, which several threads may find gone.
std::uint64_t unrecorded_context_left(std::uint32_t device_index);

// The last places are for primary contexts.
inline constexpr std::uint32_t kMaxKnownContexts = 128 + ledger::kMaxDevices;
// Copies the handles of all recorded contexts. Returns their number. Another thread may destroy them meanwhile.
std::uint32_t known_contexts(abi::CUcontext (&handles)[kMaxKnownContexts]);

// Returns whether a context of this process waits for a reading; false while another thread has the lock.
bool context_awaits_reading(std::uint32_t device_index);

// Evaluates a reading taken while nothing is in flight: `measured_bytes` of residual, `told_bytes` of it explained by
// calls. Returns the correction to the latter, so that they contain the contexts as measured. Does nothing while the
// lock is held, by another thread or by this one's call of the driver: a later reading will do.
std::int64_t learn_contexts(std::uint32_t device_index, std::uint64_t measured_bytes, std::uint64_t told_bytes);

// Where NVML does not tell: evaluates by how much the card's free memory changed with a context, in this process's turn
// (context_turn.hpp). Programs that allocate change it too, so only this process uses such a guess. One that the share
// sees twice running is the size, for the node as if measured. Charges the guess for each context without a reading.
// Returns the change of these charges.
std::int64_t guess_contexts(std::uint32_t device_index, std::uint64_t bytes);

// Returns the card's free memory as CUDA tells it in one of these contexts; SIZE_MAX if it does not.
std::size_t free_in_a_context(std::uint32_t device_index);

void context_size_reset_after_fork();

}  // namespace headgate::limiter
