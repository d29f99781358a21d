// One record per pool; private to pool*.cpp.
#pragma once

#include <atomic>

#include "guest/bare/short_lock.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/limiter/memory/pool.hpp"

namespace headgate::limiter {

enum class PoolKind : std::uint32_t {
  none,
  pool,
  graph,      // the device's pool for graph memory nodes; has no handle
  foreign,    // nothing we charge: an import, host memory
  destroyed,  // with memory outstanding: its sum can no longer be read
};

// Memory that the pool once allocated at this address. While nothing was released since, it is still backed, so
// allocating it again does not grow the pool.
struct Remembered {
  std::uint64_t address, bytes, epoch;
};

inline constexpr std::uint32_t kRemembered = 64;

struct PoolAccounting {
  std::atomic<PoolKind> kind;
  std::atomic<std::uintptr_t> handle;
  std::uint32_t device_index = 0;
  abi::CUdevice device = 0;
  bool tracked = false;  // created by the program: may be destroyed with memory outstanding, so pointers are recorded
  std::atomic<std::uint64_t> tickets;
  std::atomic<std::int64_t> outstanding;  // for a tracked pool
  bare::ShortLock lock;                   // guards what follows
  std::uint64_t charged = 0;              // what the ledger holds for it
  std::uint64_t reserved = 0;             // the sum, as last read
  std::uint64_t under_way = 0;            // upper bounds of requests not yet settled
  std::uint32_t trials = 0;               // growths without a reservation that may still be undone
  std::uint64_t applied = 0;              // ticket of the reading in `reserved`
  std::int64_t read_at = 0;
  std::atomic<std::uint64_t> granule;
  Remembered remembered[kRemembered] = {};
};

inline constexpr std::uint32_t kMaxPools = 256;  // per process; further pools are charged by request
extern PoolAccounting all_accounts[kMaxPools];
extern std::atomic<std::uint32_t> accounts_used;  // entries from here on are unused
extern std::atomic<PoolAccounting*> current_accounts[ledger::kMaxDevices];
extern std::atomic<PoolAccounting*> graph_accounts[ledger::kMaxDevices];
extern bare::ShortLock pool_table_lock;

// Moves when a pool may have released memory.
extern std::atomic<std::uint64_t> release_epoch;

// For tracked pools: address -> index of the record.
extern AllocationTable pool_pointers;
extern std::atomic<std::uint32_t> tracked_pools;

inline abi::CUmemoryPool handle_of(const PoolAccounting& pool) {
  return reinterpret_cast<abi::CUmemoryPool>(pool.handle.load(std::memory_order_relaxed));
}

PoolAccounting* find_accounting(abi::CUmemoryPool pool);
// Returns the pool's existing record, or a new one; null if all are in use.
PoolAccounting* new_accounting(PoolKind kind, abi::CUmemoryPool handle, const Place& place, bool tracked);

// Call under the pool's lock. Sets `charged` to what the pool has and may get. Gives an excess back; returns what is
// missing, for the caller to reserve.
std::uint64_t level_accounting(PoolAccounting& pool);

// Reads the sum and updates the record; `done` of the bytes under way are now settled. Returns what is missing: the
// pool grew by that much more than was reserved, and the share lacks it. That counts as a trial until the caller has
// undone it.
//
// `force`: charges what is missing anyway, except what a request under way, or a trial other than the caller's
// own_trials, will settle itself.
//
// No lock is held over the driver's call: a reading counts unless a later one was applied. A request that grew a pool
// stays under way until a reading that began after it is applied.
std::uint64_t settle_accounting(PoolAccounting& pool, std::uint64_t done, bool force, std::uint32_t own_trials = 0);

// Around growths without a reservation, until they are kept or undone.
void begin_trial(PoolAccounting& pool);
void end_trials(PoolAccounting& pool, std::uint32_t trials);

void trim_pool(const PoolAccounting& pool, PoolKind kind);

}  // namespace headgate::limiter
