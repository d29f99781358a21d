// The books of pools, one for each; private to pool*.cpp.
#pragma once

#include <atomic>

#include "guest/ledger/layout.hpp"
#include "guest/limiter/memory/backoff_lock.hpp"
#include "guest/limiter/memory/pool.hpp"

namespace headgate::limiter {

enum class PoolKind : std::uint32_t {
  none,
  pool,
  graph,      // the device's own pool for graph memory nodes; has no handle
  foreign,    // nothing of ours: an import, memory of the host
  destroyed,  // destroyed with memory outstanding: the sum can no longer be read
};

// Memory that the pool once gave out at this address. While nothing was released since, its backing is still there, so
// whoever is given it again has not grown the pool.
struct Remembered {
  std::uint64_t address, bytes, epoch;
};

inline constexpr std::uint32_t kRemembered = 64;

struct PoolAccounting {
  std::atomic<PoolKind> kind;
  std::atomic<std::uintptr_t> handle;
  std::uint32_t device_index = 0;
  abi::CUdevice device = 0;
  bool tracked = false;  // made by the program: it may be destroyed while memory is outstanding, so pointers are noted
  std::atomic<std::uint64_t> tickets;
  std::atomic<std::int64_t> outstanding;  // of a tracked pool
  std::atomic<std::uint32_t> locked;      // what follows
  std::uint64_t charged = 0;              // what the ledger holds for it
  std::uint64_t reserved = 0;             // the sum, as last read
  std::uint64_t under_way = 0;            // worst cases of requests that have not been settled
  std::uint32_t trials = 0;               // growths that nobody reserved, until it is known whether they stay
  std::uint64_t applied = 0;              // ticket of the reading in `reserved`
  std::int64_t read_at = 0;
  std::atomic<std::uint64_t> granule;
  Remembered remembered[kRemembered] = {};
};

inline constexpr std::uint32_t kMaxPools = 256;  // of one process; further ones are charged by requests
extern PoolAccounting all_accounts[kMaxPools];
extern std::atomic<std::uint32_t> accounts_used;  // none at or above is in use
extern std::atomic<PoolAccounting*> current_accounts[ledger::kMaxDevices];
extern std::atomic<PoolAccounting*> graph_accounts[ledger::kMaxDevices];
extern std::atomic<std::uint32_t> pool_table_locked;

// Moves when some pool may have released memory.
extern std::atomic<std::uint64_t> release_epoch;

// Of tracked pools: address -> index of the books.
extern AllocationTable pool_pointers;
extern std::atomic<std::uint32_t> tracked_pools;

class PoolGuard {
 public:
  explicit PoolGuard(std::atomic<std::uint32_t>& word) : word_(word) {
    for (Backoff backoff; word_.exchange(1, std::memory_order_acquire) != 0;) backoff.wait();
  }
  ~PoolGuard() { word_.store(0, std::memory_order_release); }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
};

inline abi::CUmemoryPool handle_of(const PoolAccounting& pool) {
  return reinterpret_cast<abi::CUmemoryPool>(pool.handle.load(std::memory_order_relaxed));
}

PoolAccounting* find_accounting(abi::CUmemoryPool pool);
// What is known of the pool already, or new books; null where all are taken.
PoolAccounting* new_accounting(PoolKind kind, abi::CUmemoryPool handle, const Place& place, bool tracked);

// Under the pool's lock: makes `charged` what the pool has and may come to have. Less is done; more is returned, to be
// asked for.
std::uint64_t level_accounting(PoolAccounting& pool);

// Reads the sum and brings the books in line; `done` of what was under way is not any more. Returns what is missing:
// the pool has grown by that much more than anybody reserved, and the share does not have it. That is one trial more,
// until the caller has undone it.
//
// `force`: what is missing is charged all the same, but not what a request that is under way, or a trial besides the
// caller's own_trials, will settle itself.
//
// Without a lock over the driver's call: a reading counts unless one that began later has been applied. Whatever grew a
// pool is still under way until a reading that began after it is applied.
std::uint64_t settle_accounting(PoolAccounting& pool, std::uint64_t done, bool force, std::uint32_t own_trials = 0);

void trim_pool(const PoolAccounting& pool, PoolKind kind);

}  // namespace headgate::limiter
