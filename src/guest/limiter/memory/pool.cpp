#include "guest/limiter/memory/pool.hpp"

#include <cerrno>

#include "guest/ledger/account.hpp"
#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/memory/memory.hpp"
#include "guest/limiter/memory/pool_books.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

namespace {

// The longest that a pool's sum is taken for known, whatever happens behind our back.
constexpr std::int64_t kTrusted = 4'000'000;
constexpr std::int64_t kTryAgain = 10'000'000;

std::atomic<bool> freed_since_read;
std::atomic<bool> room_may_come;
std::atomic<std::int64_t> tried_at;

bool any_pool() { return books_used.load(std::memory_order_acquire) != 0; }

void set(std::atomic<bool>& flag) {
  if (!flag.load(std::memory_order_relaxed)) flag.store(true, std::memory_order_relaxed);
}

bool fits_now(std::uint32_t device, std::uint64_t bytes) {
  const std::uint64_t limit = reservable_limit(device), used = ledger::used_bytes(*session.usage, device);
  return limit == ledger::kNoMemoryLimit || (used <= limit && bytes <= limit - used);
}

template <typename Act>
void each_pool(std::uint32_t device, Act act) {
  const std::uint32_t end = books_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolBooks& pool = all_books[i];
    const PoolKind kind = pool.kind.load(std::memory_order_acquire);
    if (pool.device_index == device && (kind == PoolKind::pool || kind == PoolKind::graph)) act(pool, kind);
  }
}

// A ghost's memory goes with its last allocation.
void lay_to_rest(PoolBooks& ghost) {
  const PoolGuard table(pool_table_locked);
  if (ghost.kind.load(std::memory_order_relaxed) != PoolKind::ghost) return;
  {
    const PoolGuard guard(ghost.locked);
    ghost.reserved = 0;
    level_books(ghost);
  }
  if (ghost.tracked) tracked_pools.fetch_sub(1);
  ghost.handle.store(0, std::memory_order_relaxed);
  ghost.kind.store(PoolKind::none, std::memory_order_release);
}

void lay_empty_ghosts_to_rest() {
  const std::uint32_t end = books_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolKind ghost = PoolKind::ghost;
    PoolBooks& pool = all_books[i];
    if (pool.kind.load(std::memory_order_acquire) != ghost || pool.outstanding.load() != 0) continue;
    lay_to_rest(pool);
  }
}

Remembered& remembered_at(PoolBooks& pool, std::uint64_t address) {
  return pool.remembered[(address * 0x9e37'79b9'7f4a'7c15ull) >> 58];
}
static_assert(kRemembered == 1 << (64 - 58));

void begin_trial(PoolBooks& pool) {
  const PoolGuard guard(pool.locked);
  ++pool.trials;
}

void end_trials(PoolBooks& pool, std::uint32_t trials) {
  if (trials == 0) return;
  const PoolGuard guard(pool.locked);
  pool.trials -= trials;
}

}  // namespace

PoolBooks* current_pool_books(const Place& place) {
  if (place.standing != Standing::held) return nullptr;
  PoolBooks* known = current_books[place.device_index].load(std::memory_order_acquire);
  if (known != nullptr) [[likely]]
    return known;
  abi::CUmemoryPool handle = nullptr;
  const int saved = errno;
  const bool told = forward(driver.cuDeviceGetMemPool, &handle, place.device) == abi::CUDA_SUCCESS && handle != nullptr;
  errno = saved;
  if (!told) return nullptr;
  PoolBooks* books = new_books(PoolKind::pool, handle, place, false);
  if (books != nullptr && books->kind.load() == PoolKind::foreign) return nullptr;
  current_books[place.device_index].store(books, std::memory_order_release);
  return books;
}

PoolBooks* named_pool_books(abi::CUmemoryPool pool, Place& place) {
  if (pool == nullptr) return nullptr;
  if (PoolBooks* books = find_books(pool); books != nullptr) {
    place = {Standing::held, books->device_index, books->device};
    return books->kind.load() == PoolKind::pool ? books : nullptr;
  }
  // A device's default pool has a handle that nobody was seen to make.
  for (std::uint32_t device = 0; device < session.device_count; ++device) {
    abi::CUmemoryPool usual = nullptr;
    const auto ordinal = static_cast<abi::CUdevice>(device);
    if (forward(driver.cuDeviceGetDefaultMemPool, &usual, ordinal) != abi::CUDA_SUCCESS || usual != pool) continue;
    place = place_of(ordinal);
    if (place.standing == Standing::held) return new_books(PoolKind::pool, pool, place, false);
  }
  return nullptr;
}

bool is_foreign_pool(abi::CUmemoryPool pool) {
  const PoolBooks* books = find_books(pool);
  return books != nullptr && books->kind.load() == PoolKind::foreign;
}

PoolRequest::PoolRequest(PoolBooks& pool, const Place& place, std::uint64_t bytes)
    : pool_(pool), place_(place), bytes_(bytes), most_(bytes), epoch_(release_epoch.load(std::memory_order_acquire)) {
  const std::uint64_t granule = pool.granule.load(std::memory_order_relaxed);
  if (__builtin_add_overflow(bytes, granule - 1, &most_)) most_ = ~0ull;
  else most_ -= most_ % granule;
}

Verdict PoolRequest::expect(OomWait& wait) {
  const std::uint64_t most = most_;
  for (;;) {
    const Verdict verdict = try_expect(wait.transit);
    if (verdict != Verdict::refused) return verdict;
    if (!wait.again(place_, bytes_, Lack::share)) break;
    most_ = most;
  }
  book_refusal(place_, bytes_);
  return Verdict::refused;
}

Verdict PoolRequest::try_expect(Transit& transit) {
  const Verdict verdict = try_reserve_at(place_, most_, transit);
  if (verdict == Verdict::reserved) {
    const PoolGuard guard(pool_.locked);
    pool_.under_way += most_;
    pool_.charged += most_;
    return verdict;
  }
  if (verdict == Verdict::forward) return verdict;
  // No room to grow. What the pool has may be enough: then the call goes through with nothing reserved, as a trial, and is undone
  // if the pool grew after all.
  most_ = 0;
  std::uint64_t used = 0, reserved = 0;
  const abi::CUmemoryPool handle = handle_of(pool_);
  if (forward(driver.cuMemPoolGetAttribute, handle, abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, static_cast<void*>(&used)) ==
          abi::CUDA_SUCCESS &&
      forward(driver.cuMemPoolGetAttribute, handle, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
              static_cast<void*>(&reserved)) == abi::CUDA_SUCCESS &&
      used <= reserved && bytes_ <= reserved - used) {
    begin_trial(pool_);
    return Verdict::reserved;
  }
  return Verdict::refused;
}

// Settles without asking the driver where the memory is known to be backed already.
bool PoolRequest::nothing_grew(std::uint64_t address) {
  const PoolGuard guard(pool_.locked);
  const Remembered& seen = remembered_at(pool_, address);
  if (seen.address != address || bytes_ > seen.bytes || seen.epoch != epoch_ ||
      epoch_ != release_epoch.load(std::memory_order_acquire) || coarse_now_ns() - pool_.read_at >= kTrusted)
    return false;
  pool_.under_way -= most_;
  level_books(pool_);
  return true;
}

abi::CUresult PoolRequest::settle(abi::CUresult result, const abi::CUdeviceptr* address) {
  std::uint32_t trials = most_ == 0 ? 1 : 0;
  const bool made = result == abi::CUDA_SUCCESS;
  bool kept = made;
  if (!made) {
    // A driver that fails may have released what it has before.
    release_epoch.fetch_add(1, std::memory_order_relaxed);
    settle_books(pool_, most_, true, trials);
  } else if (!nothing_grew(*address)) {
    kept = settle_books(pool_, most_, false) == 0;
    if (!kept) {
      ++trials;
      // Nobody has used it, so it need not wait for its stream (cuda.h, cuMemFree: no synchronisation for pool memory).
      forward(driver.cuMemFree_v2, *address);
      trim_pool(pool_, PoolKind::pool);
      settle_books(pool_, 0, true, trials);
      book_refusal(place_, bytes_);
      result = abi::CUDA_ERROR_OUT_OF_MEMORY;
    } else {
      const PoolGuard guard(pool_.locked);
      remembered_at(pool_, *address) = {*address, bytes_, epoch_};
    }
  }
  end_trials(pool_, trials);
  if (made && !kept) settle_books(pool_, 0, true);  // what the driver did not take back is charged, whoever grew it
  if (kept && pool_.tracked) {
    pool_pointers.put(*address, {static_cast<std::uint64_t>(&pool_ - all_books), place_.device_index, 0});
    pool_.outstanding.fetch_add(1);
  }
  return result;
}

void pool_made(abi::CUmemoryPool pool, const Place& place) { new_books(PoolKind::pool, pool, place, true); }

void foreign_pool_made(abi::CUmemoryPool pool) { new_books(PoolKind::foreign, pool, {}, false); }

void current_pools_changed() {
  for (auto& books : current_books) books.store(nullptr, std::memory_order_release);
}

// Frees that have not completed keep memory beyond the handle's life, and nothing tells how much: what a trim leaves is
// charged on.
abi::CUresult pool_destroyed(abi::CUmemoryPool pool) {
  PoolBooks* books = seated() && pool != nullptr ? find_books(pool) : nullptr;
  if (books == nullptr) return forward(driver.cuMemPoolDestroy, pool);
  const PoolKind kind = books->kind.load();
  // A device's default pool cannot be destroyed; trimming it for nothing would cost it what it keeps.
  if (kind == PoolKind::pool && books->tracked) {
    trim_pool(*books, kind);
    settle_books(*books, 0, true);
  }
  // From here on nobody finds it: the handle may come to name another pool before the call has returned.
  if (kind == PoolKind::foreign || books->tracked) {
    books->handle.store(0, std::memory_order_relaxed);
    books->kind.store(PoolKind::ghost, std::memory_order_release);
  }
  current_pools_changed();
  const abi::CUresult result = forward(driver.cuMemPoolDestroy, pool);
  current_pools_changed();
  if (result != abi::CUDA_SUCCESS) {
    books->handle.store(reinterpret_cast<std::uintptr_t>(pool), std::memory_order_relaxed);
    books->kind.store(kind, std::memory_order_release);
    return result;
  }
  if (kind == PoolKind::foreign) books->kind.store(PoolKind::none, std::memory_order_release);
  else if (books->outstanding.load() == 0 && books->reserved == 0) lay_to_rest(*books);
  else set(freed_since_read);
  return result;
}

PoolFree::PoolFree(std::uint64_t address) : address_(address) {
  known_ = tracked_pools.load(std::memory_order_relaxed) != 0 && pool_pointers.take(address, noted_);
}

abi::CUresult PoolFree::settle(abi::CUresult result, bool at_once) {
  if (result != abi::CUDA_SUCCESS) {
    if (known_) pool_pointers.put(address_, noted_);
    return result;
  }
  if (!any_pool()) return result;
  set(freed_since_read);
  set(room_may_come);
  if (!known_) return result;
  PoolBooks& pool = all_books[noted_.bytes % kMaxPools];
  const bool last = pool.outstanding.fetch_sub(1) == 1;
  if (last && at_once && pool.kind.load() == PoolKind::ghost) lay_to_rest(pool);
  return result;
}

void pool_trimmed(abi::CUmemoryPool pool) {
  release_epoch.fetch_add(1, std::memory_order_relaxed);
  PoolBooks* books = pool == nullptr ? nullptr : find_books(pool);
  if (books != nullptr && books->kind.load() == PoolKind::pool) settle_books(*books, 0, true);
}

void pools_may_shrink() {
  if (any_pool()) release_epoch.fetch_add(1, std::memory_order_relaxed);
}

void memory_observed() {
  if (any_pool()) set(room_may_come);
}

void memory_waited() {
  pools_may_shrink();
  memory_observed();
}

void memory_synchronised() {
  if (!any_pool()) return;
  memory_waited();
  if (!freed_since_read.load(std::memory_order_relaxed) || !freed_since_read.exchange(false)) return;
  lay_empty_ghosts_to_rest();
  for (std::uint32_t device = 0; device < session.held.device_count; ++device) settle_pools(device);
}

bool pools_under_way(std::uint32_t device) {
  bool any = false;
  each_pool(device, [&any](PoolBooks& pool, PoolKind) {
    const PoolGuard guard(pool.locked);
    any = any || pool.under_way != 0 || pool.trials != 0;
  });
  return any;
}

bool destroyed_pools_charged(std::uint32_t device) {
  const std::uint32_t end = books_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolBooks& pool = all_books[i];
    if (pool.device_index != device || pool.kind.load(std::memory_order_acquire) != PoolKind::ghost) continue;
    const PoolGuard guard(pool.locked);
    if (pool.charged != 0) return true;
  }
  return false;
}

void settle_pools(std::uint32_t device) {
  if (!any_pool()) return;
  each_pool(device, [](PoolBooks& pool, PoolKind) { settle_books(pool, 0, true); });
}

bool pools_make_room(const Place& place, std::uint64_t bytes) {
  if (!any_pool()) return false;
  const std::int64_t now = coarse_now_ns();
  const bool due = room_may_come.exchange(false) || now - tried_at.load(std::memory_order_relaxed) > kTryAgain;
  if (!due) return false;
  tried_at.store(now, std::memory_order_relaxed);
  settle_pools(place.device_index);
  // While a stream is captured, only calls that cannot invalidate the capture.
  if (fits_now(place.device_index, bytes) || compute_captures()) return true;
  trim_pools(place.device_index);
  return true;
}

void trim_pools(std::uint32_t device) {
  if (!any_pool()) return;
  each_pool(device, [](PoolBooks& pool, PoolKind kind) {
    trim_pool(pool, kind);
    settle_books(pool, 0, true);
  });
}

namespace {

PoolBooks* graph_pool_books(const Place& place) {
  if (place.standing != Standing::held) return nullptr;
  PoolBooks* books = graph_books[place.device_index].load(std::memory_order_acquire);
  if (books != nullptr) return books;
  books = new_books(PoolKind::graph, nullptr, place, false);
  graph_books[place.device_index].store(books, std::memory_order_release);
  return books;
}

}  // namespace

// Each allocation may need a growth of its own. But the rest of a growth serves those that come after it, so that of two
// neighbouring growths one is used by more than half: all are less than twice the bytes, and one granule.
std::uint64_t most_graph_growth(const Place& place, std::uint64_t bytes, std::uint64_t count) {
  const PoolBooks* pool = graph_pool_books(place);
  if (pool == nullptr || bytes == 0) return bytes;
  const std::uint64_t granule = pool->granule.load(std::memory_order_relaxed);
  std::uint64_t each = 0, packed = 0;
  if (__builtin_mul_overflow(count, granule - 1, &each) || __builtin_add_overflow(bytes, each, &each)) each = ~0ull;
  if (__builtin_mul_overflow(bytes, 2, &packed) || __builtin_add_overflow(packed, granule, &packed)) packed = ~0ull;
  const std::uint64_t most = each < packed ? each : packed;
  return most - most % granule;
}

Verdict expect_graph_growth(const Place& place, std::uint64_t most) {
  PoolBooks* pool = graph_pool_books(place);
  if (most == 0 || place.standing == Standing::free) return Verdict::forward;
  Transit transit;  // until it is counted as under way
  const Verdict verdict = try_reserve_at(place, most, transit);
  if (verdict != Verdict::reserved) return verdict;
  pools_may_shrink();
  if (pool == nullptr) {
    hand_back_unused(place.device_index, most);
    return Verdict::forward;
  }
  const PoolGuard guard(pool->locked);
  pool->under_way += most;
  pool->charged += most;
  return verdict;
}

void settle_graph_pool(const Place& place, std::uint64_t most) {
  if (PoolBooks* pool = graph_pool_books(place); pool != nullptr) settle_books(*pool, most, true);
}

bool graph_pool_has(const Place& place, std::uint64_t bytes, bool used_too) {
  std::uint64_t used = 0, reserved = 0;
  return forward(driver.cuDeviceGetGraphMemAttribute, place.device, abi::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                 static_cast<void*>(&used)) == abi::CUDA_SUCCESS &&
         forward(driver.cuDeviceGetGraphMemAttribute, place.device, abi::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                 static_cast<void*>(&reserved)) == abi::CUDA_SUCCESS &&
         used <= reserved && bytes <= (used_too ? reserved : reserved - used);
}

void try_graph_growth(const Place& place) {
  if (PoolBooks* pool = graph_pool_books(place); pool != nullptr) begin_trial(*pool);
}

bool keep_graph_growth(const Place& place) {
  PoolBooks* pool = graph_pool_books(place);
  if (pool == nullptr) return false;
  const bool kept = settle_books(*pool, 0, false) == 0;
  const std::uint32_t trials = kept ? 1 : 2;
  if (!kept) {
    trim_pool(*pool, PoolKind::graph);
    // Before the trials' end: who has read the sum before the trim would charge what is gone.
    settle_books(*pool, 0, true, trials);
  }
  end_trials(*pool, trials);
  if (!kept) settle_books(*pool, 0, true);
  return kept;
}

}  // namespace headgate::limiter
