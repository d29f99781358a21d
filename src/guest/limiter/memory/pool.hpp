// What this process's memory pools have reserved, charged to the share.
//
// A driver grows a pool inside an allocation, shrinks it inside a synchronise, a trim or another allocation that would
// fail, and tells only the sum. The books hold at least that sum at every moment: the most that a request can grow its
// pool by is reserved first; afterwards the sum is read (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) and the rest given back.
// Nothing here synchronises. What yields where these cannot all hold, and by how much: docs/life-of-an-allocation.md.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/charge.hpp"

namespace headgate::limiter {

struct
    // Of one pool; valid for ever, though it may come to stand for another pool once its own is destroyed
    PoolAccounting;

// The pool that allocations in streams of that GPU come from. Null: none of ours to charge.
PoolAccounting* current_pool_accounting(const Place& place);
// By handle, with the place that it is on; null for a pool that was made behind our back, is an import, or not on a GPU
// of the share.
PoolAccounting* named_pool_accounting(abi::CUmemoryPool pool, Place& place);
// Whether the handle is known to hold nothing of ours: an import, host memory.
bool is_foreign_pool(abi::CUmemoryPool pool);

// A request for `bytes` from a pool, around the driver's call.
class PoolRequest {
 public:
  PoolRequest(PoolAccounting& pool, const Place& place, std::uint64_t bytes);
  // refused: CUDA_ERROR_OUT_OF_MEMORY without a call.
  Verdict expect(OomWait& wait);
  // After the call: its result, or OUT_OF_MEMORY where the pool grew by what the share does not have; then the
  // allocation is undone.
  abi::CUresult settle(abi::CUresult result, const abi::CUdeviceptr* address);

 private:
  Verdict try_expect(InFlightBytes& in_flight);
  bool nothing_grew(std::uint64_t address);

  PoolAccounting& pool_;
  Place place_;
  std::uint64_t bytes_, most_, epoch_;
};

// A pool was made (on a GPU of the share, or foreign), or is about to be destroyed and has been.
void pool_made(abi::CUmemoryPool pool, const Place& place);
void foreign_pool_made(abi::CUmemoryPool pool);
abi::CUresult pool_destroyed(abi::CUmemoryPool pool);
// Another pool may be current on some GPU.
void current_pools_changed();

// Around a free of what may be a pool's memory: the note of it leaves the books first, since another thread may be
// given the same address at once. `at_once`: not in stream order.
class PoolFree {
 public:
  explicit PoolFree(std::uint64_t address);
  abi::CUresult settle(abi::CUresult result, bool at_once);

 private:
  std::uint64_t address_;
  Allocation noted_;
  bool known_ = false;
};

// A pool was trimmed.
void pool_trimmed(abi::CUmemoryPool pool);

// Some pool may have released memory without a word: the driver takes from pools what another allocation lacks.
void pools_may_shrink();

// Whether some request of a pool of that device is between its reservation and its settling.
bool pools_under_way(std::uint32_t device_index);

// Whether a pool that was destroyed with memory outstanding is still charged: nothing tells what of it is left.
bool destroyed_pools_charged(std::uint32_t device_index);

// Reads the sums anew: of this process's pools on a device of the pages.
void settle_pools(std::uint32_t device_index);
// Where a request for `bytes` does not fit: reads the sums anew; where that is not enough, trims what is reserved for
// nobody. False where nothing can have changed since it was last tried.
bool pools_make_room(const Place& place, std::uint64_t bytes);

// Gives back what pools of this process hold unused there, of graphs too. Waits for no stream.
void trim_pools(std::uint32_t device_index);

// Memory that graphs allocate for themselves is a pool of its own on each GPU (CU_GRAPH_MEM_ATTR_*), which moves when a
// graph is uploaded or launched, and at cuDeviceGraphMemTrim.
//
// The most that it grows by for `count` allocations of `bytes` together.
std::uint64_t most_graph_growth(const Place& place, std::uint64_t bytes, std::uint64_t count);
// Around a call in which it may grow by `most`: expect, call (unless refused), settle with the same `most`. settle
// alone, with 0, notes what is. A refusal is not booked.
Verdict expect_graph_growth(const Place& place, std::uint64_t most);
void settle_graph_pool(const Place& place, std::uint64_t most);
// Whether the pool has so much that nothing uses; or has so much at all, where what uses it may be freed by the launch.
bool graph_pool_has(const Place& place, std::uint64_t bytes, bool used_too);
// Around a call that may grow it with nothing reserved. keep: false, and the growth is undone, where the share does not
// have it.
void try_graph_growth(const Place& place);
bool keep_graph_growth(const Place& place);

void pools_reset_after_fork();

}  // namespace headgate::limiter
