#include "guest/limiter/memory/pool_accounting.hpp"

#include "guest/bare/keep_errno.hpp"
#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

constinit PoolAccounting all_accounts[kMaxPools];
constinit std::atomic<std::uint32_t> accounts_used;
constinit std::atomic<PoolAccounting*> current_accounts[ledger::kMaxDevices];
constinit std::atomic<PoolAccounting*> graph_accounts[ledger::kMaxDevices];
constinit bare::ShortLock pool_table_lock;
constinit std::atomic<std::uint64_t> release_epoch{1};
constinit AllocationTable pool_pointers;
constinit std::atomic<std::uint32_t> tracked_pools;

namespace {

constexpr std::uint64_t kDefaultGranule = 32 << 20, kSmallestGranule = 64 << 10;

bool read_sum(const PoolAccounting& pool, std::uint64_t& bytes, abi::CUresult& result) {
  const bare::KeepErrno keep_errno;
  if (pool.kind.load(std::memory_order_relaxed) == PoolKind::graph) {
    result = forward(driver.cuDeviceGetGraphMemAttribute, pool.device, abi::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                     static_cast<void*>(&bytes));
  } else {
    result = forward(driver.cuMemPoolGetAttribute, handle_of(pool), abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                     static_cast<void*>(&bytes));
  }
  return result == abi::CUDA_SUCCESS;
}

// Learns the granule by which a pool grows, from the default downwards; an unexpectedly large growth counts at once.
void learn_granule(PoolAccounting& pool, std::uint64_t growth, std::uint64_t most) {
  const std::uint64_t multiple = growth & -growth;
  if (growth > most) pool.granule = growth < kDefaultGranule ? kDefaultGranule : growth;
  else if (multiple < pool.granule.load()) pool.granule = multiple > kSmallestGranule ? multiple : kSmallestGranule;
}

}  // namespace

PoolAccounting* find_accounting(abi::CUmemoryPool pool) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(pool);
  const std::uint32_t end = accounts_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolAccounting& accounting = all_accounts[i];
    if (accounting.handle.load(std::memory_order_acquire) != wanted) continue;
    const PoolKind kind = accounting.kind.load(std::memory_order_acquire);
    if (kind == PoolKind::pool || kind == PoolKind::foreign) return &accounting;
  }
  return nullptr;
}

PoolAccounting* new_accounting(PoolKind kind, abi::CUmemoryPool handle, const Place& place, bool tracked) {
  const bare::Locked guard(pool_table_lock);
  if (handle != nullptr) {
    if (PoolAccounting* known = find_accounting(handle); known != nullptr) return known;
  } else if (PoolAccounting* known = graph_accounts[place.device_index].load(); known != nullptr) {
    return known;
  }
  const std::uint32_t end = accounts_used.load(std::memory_order_relaxed);
  std::uint32_t i = 0;
  while (i < end && all_accounts[i].kind.load(std::memory_order_relaxed) != PoolKind::none) ++i;
  if (i == kMaxPools) return nullptr;
  PoolAccounting& accounting = all_accounts[i];
  {
    const bare::Locked one(accounting.lock);
    accounting.device_index = place.device_index;
    accounting.device = place.device;
    accounting.tracked = tracked;
    accounting.charged = accounting.reserved = accounting.under_way = 0;
    accounting.read_at = 0;
    accounting.trials = 0;
    accounting.granule = kDefaultGranule;
    for (Remembered& each : accounting.remembered) each = {};
    accounting.outstanding.store(0, std::memory_order_relaxed);
  }
  accounting.handle.store(reinterpret_cast<std::uintptr_t>(handle), std::memory_order_release);
  accounting.kind.store(kind, std::memory_order_release);
  if (i == end) accounts_used.store(end + 1, std::memory_order_release);
  if (tracked) tracked_pools.fetch_add(1);
  return &accounting;
}

std::uint64_t level_accounting(PoolAccounting& pool) {
  const std::uint64_t wanted = pool.reserved + pool.under_way;
  if (wanted >= pool.charged) return wanted - pool.charged;
  // The peak was noted when the sum was read.
  hand_back_unused(pool.device_index, pool.charged - wanted);
  pool.charged = wanted;
  return 0;
}

std::uint64_t settle_accounting(PoolAccounting& pool, std::uint64_t done, bool force, std::uint32_t own_trials) {
  const std::uint64_t ticket = pool.tickets.fetch_add(1) + 1;
  std::uint64_t sum = 0;
  abi::CUresult result = abi::CUDA_SUCCESS;
  const bool told = read_sum(pool, sum, result);
  const bare::Locked guard(pool.lock);
  const bool alone = pool.under_way == done;
  pool.under_way -= done;
  // Growth while a request is under way, or on trial, is settled by that request. Charged here too, it would count
  // twice, or stay although the request is refused.
  const bool somebodys = pool.under_way != 0 || pool.trials > own_trials;
  if (told && done == 0 && force && sum > pool.reserved && somebodys) return 0;
  if (told && ticket > pool.applied) {
    if (sum < pool.reserved) release_epoch.fetch_add(1, std::memory_order_relaxed);
    if (sum > pool.reserved) {
      release_epoch.fetch_add(1, std::memory_order_relaxed);  // perhaps at the cost of another pool
      if (alone && done != 0) learn_granule(pool, sum - pool.reserved, done);
    }
    pool.reserved = sum;
    pool.applied = ticket;
    pool.read_at = coarse_now_ns();
  } else if (!told) {
    // Unknown: it may have grown by all of it. A pool that no longer exists has nothing.
    if (done == 0 && result == abi::CUDA_ERROR_INVALID_VALUE) pool.reserved = 0;
    else pool.reserved += done;
  }
  const std::uint64_t missing = level_accounting(pool);
  if (missing == 0) return note_peaks(pool.device_index), 0;
  const bool fits = grow_reservation(pool.device_index, missing);
  if (!fits && !force) {
    pool.reserved -= missing;
    ++pool.trials;
    return missing;
  }
  if (!fits) ledger::charge(*session.usage, pool.device_index, own_slot(), missing);
  pool.charged += missing;
  note_peaks(pool.device_index);
  return 0;
}

void begin_trial(PoolAccounting& pool) {
  const bare::Locked guard(pool.lock);
  ++pool.trials;
}

void end_trials(PoolAccounting& pool, std::uint32_t trials) {
  if (trials == 0) return;
  const bare::Locked guard(pool.lock);
  pool.trials -= trials;
}

void trim_pool(const PoolAccounting& pool, PoolKind kind) {
  const bare::KeepErrno keep_errno;
  if (kind == PoolKind::graph) forward(driver.cuDeviceGraphMemTrim, pool.device);
  else forward(driver.cuMemPoolTrimTo, handle_of(pool), std::size_t{0});
  release_epoch.fetch_add(1, std::memory_order_relaxed);
}

void pools_reset_after_fork() {
  for (PoolAccounting& pool : all_accounts) {
    if (pool.kind.load(std::memory_order_relaxed) == PoolKind::none) continue;
    pool.kind.store(PoolKind::none, std::memory_order_relaxed);
    pool.handle.store(0, std::memory_order_relaxed);
    pool.lock.reset();
  }
  accounts_used.store(0, std::memory_order_relaxed);
  pool_table_lock.reset();
  tracked_pools.store(0, std::memory_order_relaxed);
  for (auto& accounting : graph_accounts) accounting.store(nullptr, std::memory_order_relaxed);
  current_pools_changed();
  pool_pointers.forget_after_fork();
}

}  // namespace headgate::limiter
