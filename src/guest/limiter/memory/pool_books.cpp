#include "guest/limiter/memory/pool_books.hpp"

#include <cerrno>

#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

constinit PoolBooks all_books[kMaxPools];
constinit std::atomic<std::uint32_t> books_used;
constinit std::atomic<PoolBooks*> current_books[ledger::kMaxDevices];
constinit std::atomic<PoolBooks*> graph_books[ledger::kMaxDevices];
constinit std::atomic<std::uint32_t> pool_table_locked;
constinit std::atomic<std::uint64_t> release_epoch{1};
constinit Holdings pool_pointers;
constinit std::atomic<std::uint32_t> tracked_pools;

namespace {

constexpr std::uint64_t kUsualGranule = 32 << 20, kSmallestGranule = 64 << 10;

bool read_sum(const PoolBooks& pool, std::uint64_t& bytes, abi::CUresult& result) {
  const int saved = errno;
  if (pool.kind.load(std::memory_order_relaxed) == PoolKind::graph) {
    result = forward(driver.cuDeviceGetGraphMemAttribute, pool.device, abi::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                     static_cast<void*>(&bytes));
  } else {
    result = forward(driver.cuMemPoolGetAttribute, handle_of(pool), abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                     static_cast<void*>(&bytes));
  }
  errno = saved;
  return result == abi::CUDA_SUCCESS;
}

// By how much a pool grows for a request is learnt, from the usual downwards; what a pool surprised us with counts at once.
void learn_granule(PoolBooks& pool, std::uint64_t growth, std::uint64_t most) {
  const std::uint64_t multiple = growth & -growth;
  if (growth > most) pool.granule = growth < kUsualGranule ? kUsualGranule : growth;
  else if (multiple < pool.granule.load()) pool.granule = multiple > kSmallestGranule ? multiple : kSmallestGranule;
}

}  // namespace

PoolBooks* find_books(abi::CUmemoryPool pool) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(pool);
  const std::uint32_t end = books_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolBooks& books = all_books[i];
    if (books.handle.load(std::memory_order_acquire) != wanted) continue;
    const PoolKind kind = books.kind.load(std::memory_order_acquire);
    if (kind == PoolKind::pool || kind == PoolKind::foreign) return &books;
  }
  return nullptr;
}

PoolBooks* new_books(PoolKind kind, abi::CUmemoryPool handle, const Place& place, bool tracked) {
  const PoolGuard guard(pool_table_locked);
  if (handle != nullptr) {
    if (PoolBooks* known = find_books(handle); known != nullptr) return known;
  } else if (PoolBooks* known = graph_books[place.device_index].load(); known != nullptr) {
    return known;
  }
  const std::uint32_t end = books_used.load(std::memory_order_relaxed);
  std::uint32_t i = 0;
  while (i < end && all_books[i].kind.load(std::memory_order_relaxed) != PoolKind::none) ++i;
  if (i == kMaxPools) return nullptr;
  PoolBooks& books = all_books[i];
  {
    const PoolGuard one(books.locked);
    books.device_index = place.device_index;
    books.device = place.device;
    books.tracked = tracked;
    books.charged = books.reserved = books.under_way = 0;
    books.read_at = 0;
    books.trials = 0;
    books.granule = kUsualGranule;
    for (Remembered& each : books.remembered) each = {};
    books.outstanding.store(0, std::memory_order_relaxed);
  }
  books.handle.store(reinterpret_cast<std::uintptr_t>(handle), std::memory_order_release);
  books.kind.store(kind, std::memory_order_release);
  if (i == end) books_used.store(end + 1, std::memory_order_release);
  if (tracked) tracked_pools.fetch_add(1);
  return &books;
}

std::uint64_t level_books(PoolBooks& pool) {
  const std::uint64_t wanted = pool.reserved + pool.under_way;
  if (wanted >= pool.charged) return wanted - pool.charged;
  // What it really had was noted when that was read.
  hand_back_unused(pool.device_index, pool.charged - wanted);
  pool.charged = wanted;
  return 0;
}

std::uint64_t settle_books(PoolBooks& pool, std::uint64_t done, bool force, std::uint32_t own_trials) {
  const std::uint64_t ticket = pool.tickets.fetch_add(1) + 1;
  std::uint64_t sum = 0;
  abi::CUresult result = abi::CUDA_SUCCESS;
  const bool told = read_sum(pool, sum, result);
  const PoolGuard guard(pool.locked);
  const bool alone = pool.under_way == done;
  pool.under_way -= done;
  // Growth while a request is under way, or on trial, is that one's to settle: charged here too, it would count twice, or stay though
  // it is refused.
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
    // Not known: it may have grown by all of it. A pool that does not exist any more has nothing.
    if (done == 0 && result == abi::CUDA_ERROR_INVALID_VALUE) pool.reserved = 0;
    else pool.reserved += done;
  }
  const std::uint64_t missing = level_books(pool);
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

void trim_pool(const PoolBooks& pool, PoolKind kind) {
  const int saved = errno;
  if (kind == PoolKind::graph) forward(driver.cuDeviceGraphMemTrim, pool.device);
  else forward(driver.cuMemPoolTrimTo, handle_of(pool), std::size_t{0});
  errno = saved;
  release_epoch.fetch_add(1, std::memory_order_relaxed);
}

void pools_reset_after_fork() {
  for (PoolBooks& pool : all_books) {
    if (pool.kind.load(std::memory_order_relaxed) == PoolKind::none) continue;
    pool.kind.store(PoolKind::none, std::memory_order_relaxed);
    pool.handle.store(0, std::memory_order_relaxed);
    pool.locked.store(0, std::memory_order_relaxed);
  }
  books_used.store(0, std::memory_order_relaxed);
  pool_table_locked.store(0, std::memory_order_relaxed);
  tracked_pools.store(0, std::memory_order_relaxed);
  for (auto& books : graph_books) books.store(nullptr, std::memory_order_relaxed);
  current_pools_changed();
  pool_pointers.forget_after_fork();
}

}  // namespace headgate::limiter
