// What this process's memory pools have reserved, as charged to the share.
//
// A driver grows a pool inside an allocation, shrinks it inside a synchronise, a trim or another allocation that would
// fail, and reports only the sum. The ledger always holds at least that sum: first the most by which a request can grow
// its pool is reserved; then the sum is read (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) and the rest given back. Nothing
// here synchronises. Where these goals conflict, what yields and by how much: docs/memory-accounting.md.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/charge.hpp"

namespace headgate::limiter {

struct
    // One pool's record; valid for ever, but reused for another pool once its own is destroyed
    PoolAccounting;

// Returns the pool for stream allocations on that GPU; null if we charge none.
PoolAccounting* current_pool_accounting(const Place& place);
// Finds a pool by handle, and its place. Null for a pool created without our knowledge, an import, or one not on a GPU
// of the share.
PoolAccounting* named_pool_accounting(abi::CUmemoryPool pool, Place& place);
// Returns whether the handle is known to hold nothing we charge: an import, host memory.
bool is_foreign_pool(abi::CUmemoryPool pool);

// A request for `bytes` from a pool, for use around the driver's call.
class PoolRequest {
 public:
  PoolRequest(PoolAccounting& pool, const Place& place, std::uint64_t bytes);
  // Returns refused if the call must be skipped with CUDA_ERROR_OUT_OF_MEMORY.
  Verdict expect(OomWait& wait);
  // Call afterwards. Returns the call's result, or OUT_OF_MEMORY if the pool grew by more than the share has; then the
  // allocation is undone.
  abi::CUresult settle(abi::CUresult result, const abi::CUdeviceptr* address);

 private:
  Verdict try_expect(InFlightBytes& in_flight);
  bool nothing_grew(std::uint64_t address);

  PoolAccounting& pool_;
  Place place_;
  std::uint64_t bytes_, most_, epoch_;
};

// A pool was created (on a GPU of the share, or foreign). pool_destroyed() destroys it by the driver's call.
void pool_made(abi::CUmemoryPool pool, const Place& place);
void foreign_pool_made(abi::CUmemoryPool pool);
abi::CUresult pool_destroyed(abi::CUmemoryPool pool);
// Call when the current pool of a GPU may have changed.
void current_pools_changed();

// For use around a free of what may be pool memory. The record is removed first, since another thread may get the same
// address at once. `at_once`: not in stream order.
class PoolFree {
 public:
  explicit PoolFree(std::uint64_t address);
  abi::CUresult settle(abi::CUresult result, bool at_once);

 private:
  std::uint64_t address_;
  Allocation noted_;
  bool known_ = false;
};

// Call after a pool was trimmed.
void pool_trimmed(abi::CUmemoryPool pool);

// Call when pools may have released memory silently: the driver takes from pools what another allocation lacks.
void pools_may_shrink();

// Returns whether a request of a pool on that device is reserved but not settled.
bool pools_under_way(std::uint32_t device_index);

// Returns whether a pool destroyed with memory outstanding is still charged: no call reports what is left of it.
bool destroyed_pools_charged(std::uint32_t device_index);

// Reads the sums of this process's pools on a device of the pages.
void settle_pools(std::uint32_t device_index);
// Call if a request for `bytes` does not fit. Reads the sums; if that is not enough, trims unused pool memory. Returns
// false if nothing can have changed since the last attempt.
bool pools_make_room(const Place& place, std::uint64_t bytes);

// Gives back unused pool memory there, including pools of graphs. Waits for no stream.
void trim_pools(std::uint32_t device_index);

// Reads the sum of a GPU's pool for graph memory, of which `done` bytes were reserved for a growth that is settled now.
void settle_graph_pool(const Place& place, std::uint64_t done);

void pools_reset_after_fork();

}  // namespace headgate::limiter
