// Reserve, call the driver, keep or give back: the one order in which every allocation goes.
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
  forward,   // not ours to charge: call the driver, keep no books
  reserved,  // call the driver, then keep() or hand_back_unused()
  refused,   // answer refusal()
  on_host,   // no room on the GPU, but in the share's host budget, which has it reserved: allocate_on_host()
};
// Whether host memory may stand in for the GPU's.
enum class Fallback : std::uint32_t { none, host };

// Asks the share for `bytes` on that place; waits for them as long as `wait` has patience. Refusals are recorded for
// `headgate why` and said once a minute.
Verdict reserve_at(const Place& place, std::uint64_t bytes, OomWait& wait, Fallback fallback = Fallback::none);

// The same without the record, for a caller that may yet avert the refusal; and the record, on a device of the share.
// `transit` has begun if it is reserved.
Verdict try_reserve_at(const Place& place, std::uint64_t bytes, InFlightBytes& in_flight);
void book_refusal(const Place& place, std::uint64_t bytes);
// The record of what the driver had no memory for, though the share had room.
void book_driver_refusal(const Place& place, std::uint64_t bytes);

// After the driver has failed a request for which the share had room: whether to reserve and ask it again. The last no
// is recorded, unless `recorded` says that it is: the driver had said yes, and that was undone for the share's limit.
inline bool try_again(abi::CUresult result, const Place& place, std::uint64_t bytes, OomWait& wait,
                      bool recorded = false) {
  if (result != abi::CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (wait.again(place, bytes, Lack::card)) return true;
  if (!recorded) book_driver_refusal(place, bytes);
  return false;
}

// `account`: the page index of a device, or ledger::host_account() of it; also a Holding's device_index.
// After the driver's success: the bytes stay reserved, and are found again by `key`.
void keep(AllocationTable& holdings, std::uint64_t key, const Allocation& holding);

// Of what the driver has taken back; and of what it never gave.
void hand_back(std::uint32_t account, std::uint64_t bytes);
void hand_back_unused(std::uint32_t account, std::uint64_t bytes);

// After the driver freed what the books knew, and what `pointers` and `arrays` did not know: mapped external memory.
void freed(std::uint64_t key, const Allocation& holding);
void freed_unknown(std::uint64_t key);

// Adds to a reservation after the driver has shown the true size; false: it does not fit any more.
bool grow_reservation(std::uint32_t device_index, std::uint64_t bytes);

// The limit that reservations are held to now: the share's, less its residual. ledger::kNoMemoryLimit: none.
std::uint64_t reservable_limit(std::uint32_t device_index);

// Device memory by pointer, and arrays by handle.
extern AllocationTable pointers;
extern AllocationTable arrays;
void allocations_reset_after_fork();

// Who takes an allocation of the calling thread along: its current context. 0 where there is none.
std::uint64_t owner_here();

// The contexts' memory goes with them: before the driver destroys a context, and after it has.
void context_may_go(std::uint64_t context);
void context_gone(std::uint64_t context);

// The driver's call for a request for which `reserved` bytes are reserved. What it turns out to take more is reserved
// too, or the call is undone; `reserved` is what is left to keep or to hand back.
template <typename Allocate, typename Undo>
abi::CUresult allocated(const Place& place, std::uint64_t bytes, std::uint64_t& reserved, Allocate allocate,
                        Undo undo) {
  const RoundingProbe probe(place.device_index, bytes);
  const abi::CUresult result = noted(allocate());
  if (result != abi::CUDA_SUCCESS) return result;
  const std::uint64_t taken = probe.taken(bytes);
  if (taken <= reserved) return result;
  if (grow_reservation(place.device_index, taken - reserved)) {
    reserved = taken;
    return result;
  }
  undo();
  return refusal();
}

// allocate(): the driver call. key(): of what it made, valid after success, which undo() frees. It dies with the
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
    const abi::CUresult result = allocated(place, bytes, taken, allocate, undo);
    if (result == abi::CUDA_SUCCESS) {
      keep(holdings, key(), {taken, place.device_index, owner_here()});
      small_array_came(place.device_index, taken);
    } else {
      hand_back_unused(place.device_index, taken);
    }
    if (!try_again(result, place, taken, wait)) return result;
  }
}

// The entry leaves the books before the driver frees: another thread may be given the same address at once.
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
