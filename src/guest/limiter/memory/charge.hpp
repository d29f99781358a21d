// Reserve, call the driver, keep or give back: all allocations follow this order.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/memory/oom_wait.hpp"
#include "guest/limiter/memory/refusal.hpp"
#include "guest/limiter/memory/rounding.hpp"
#include "guest/limiter/memory/slabs.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

enum class Verdict : std::uint32_t {
  forward,   // not charged: call the driver and record nothing
  reserved,  // call the driver, then keep() or hand_back_unused()
  refused,   // return refusal()
  on_host,   // no room on the GPU; reserved in the share's host budget: allocate_on_host()
};
// Whether host memory may replace GPU memory.
enum class Fallback : std::uint32_t { none, host };

// Reserves `bytes` at that place; waits for them as long as `wait` allows. Refusals are recorded for `headgate why` and
// logged once a minute.
Verdict reserve_at(const Place& place, std::uint64_t bytes, OomWait& wait, Fallback fallback = Fallback::none);

// try_reserve_at() does the same without the record, for a caller that may still avoid the refusal; `in_flight` has
// begun if it is reserved. book_refusal() writes the record, for a device of the share.
Verdict try_reserve_at(const Place& place, std::uint64_t bytes, InFlightBytes& in_flight);
void book_refusal(const Place& place, std::uint64_t bytes);
// Records that the driver had no memory although the share had room.
void book_driver_refusal(const Place& place, std::uint64_t bytes);

// Call after the driver failed a request for which the share had room: returns whether to reserve and try again.
// Records the final failure, unless `recorded`: the driver had succeeded, and that was undone for the share's limit.
inline bool try_again(abi::CUresult result, const Place& place, std::uint64_t bytes, OomWait& wait,
                      bool recorded = false) {
  if (result != abi::CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (wait.again(place, bytes, Lack::card)) return true;
  if (!recorded) book_driver_refusal(place, bytes);
  return false;
}

// `account`: the page index of a device, or its ledger::host_account(); also an Allocation's device_index. Call after
// the driver's success: the bytes stay reserved and are found again by `key`.
void keep(AllocationTable& holdings, std::uint64_t key, const Allocation& holding);

// Gives back what the driver has freed, or what it never allocated.
void hand_back(std::uint32_t account, std::uint64_t bytes);
void hand_back_unused(std::uint32_t account, std::uint64_t bytes);

// Call after the driver freed a known allocation, or one unknown to `pointers` and `arrays`: mapped external memory.
void freed(std::uint64_t key, const Allocation& holding);
void freed_unknown(std::uint64_t key);

// Call when reserved bytes turn out to be residual: a context's, an image's arrays. The share holds them throughout.
void becomes_residual(std::uint32_t device_index, std::uint64_t bytes);

// Adds to a reservation after the driver showed the true size. Returns false if it no longer fits.
bool grow_reservation(std::uint32_t device_index, std::uint64_t bytes);

// Returns the current limit for reservations: the share's limit minus its residual. ledger::kNoMemoryLimit: none.
std::uint64_t reservable_limit(std::uint32_t device_index);

// Device memory by pointer, and arrays by handle.
extern AllocationTable pointers;
extern AllocationTable arrays;
void allocations_reset_after_fork();

// Returns the owner of the calling thread's allocations: its current context, or 0.
std::uint64_t owner_here();

// Call before and after the driver destroys a context, which frees its memory.
void context_memory_may_go(std::uint64_t context);
void context_memory_gone(std::uint64_t context);

// Calls the driver for a request of at most `bound` bytes with `reserved` bytes reserved; size() then tells its bytes.
// If it takes more, reserves the rest or undoes the call. `reserved` is then what is left to keep or hand back.
template <typename Allocate, typename Undo, typename Size>
abi::CUresult allocated(const Place& place, std::uint64_t bound, std::uint64_t& reserved, Allocate allocate, Undo undo,
                        Size size) {
  const RoundingProbe probe(place.device_index, bound);
  const abi::CUresult result = noted(allocate());
  if (result != abi::CUDA_SUCCESS) return result;
  const std::uint64_t taken = probe.taken(size());
  if (taken <= reserved || grow_reservation(place.device_index, taken - reserved)) {
    if (taken < reserved) hand_back_unused(place.device_index, reserved - taken);
    reserved = taken;
    return result;
  }
  undo();
  return refusal();
}

// Reserves `bytes` at that place, then calls the driver. After success kept() records them; if they do not fit,
// refused() returns the error for the program.
template <typename Allocate, typename Kept, typename Refused>
abi::CUresult requested(const Place& place, std::uint64_t bytes, Allocate allocate, Kept kept, Refused refused) {
  OomWait wait;
  for (;;) {
    const Verdict verdict = reserve_at(place, bytes, wait);
    if (verdict == Verdict::forward) return allocate();
    if (verdict == Verdict::refused) return refused();
    const abi::CUresult result = noted(allocate());
    if (result == abi::CUDA_SUCCESS) kept();
    else hand_back_unused(place.device_index, bytes);
    if (!try_again(result, place, bytes, wait)) return result;
  }
}

// allocate(): the driver call. key(): its result, valid after success. undo(): frees it. It is destroyed with the
// context.
template <typename Allocate, typename Key, typename Undo>
abi::CUresult charged(std::uint64_t bytes, AllocationTable& holdings, Allocate allocate, Key key, Undo undo) {
  OomWait wait;
  for (;;) {
    const Place place = current_place();
    std::uint64_t taken = with_rounding(place.device_index, bytes);
    const Verdict verdict = place.standing == Standing::free ? Verdict::forward : reserve_at(place, taken, wait);
    if (verdict == Verdict::forward) return allocate();
    if (verdict == Verdict::refused) return refusal();
    const abi::CUresult result = allocated(place, bytes, taken, allocate, undo, [=] { return bytes; });
    if (result == abi::CUDA_SUCCESS) {
      keep(holdings, key(), {taken, place.device_index, owner_here()});
      small_array_came(place.device_index, taken);
    } else {
      hand_back_unused(place.device_index, taken);
    }
    if (!try_again(result, place, taken, wait)) return result;
  }
}

// Removes the entry before the driver frees: another thread may get the same address at once.
template <typename Free>
abi::CUresult released(AllocationTable& holdings, std::uint64_t key, Free free) {
  Allocation holding;
  if (!seated()) return free();
  if (!holdings.take(key, holding)) {
    const InFlightBytes in_flight(kAnyDevice);
    const abi::CUresult result = free();
    if (result == abi::CUDA_SUCCESS) freed_unknown(key);
    return result;
  }
  const InFlightBytes in_flight(holding.device_index);
  const abi::CUresult result = free();
  if (result == abi::CUDA_SUCCESS) freed(key, holding);
  else holdings.put(key, holding);
  return result;
}

}  // namespace headgate::limiter
