#include "guest/limiter/memory/pool.hpp"

#include "guest/bare/keep_errno.hpp"
#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/memory.hpp"
#include "guest/limiter/memory/pool_accounting.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {

namespace {

// How long a pool's sum stays valid, as it may change without our knowledge.
constexpr std::int64_t kTrusted = 4'000'000;
constexpr std::int64_t kTryAgain = 10'000'000;

std::atomic<bool> freed_since_read;
std::atomic<bool> room_may_come;
std::atomic<std::int64_t> tried_at;

bool any_pool() { return accounts_used.load(std::memory_order_acquire) != 0; }

void set(std::atomic<bool>& flag) {
  if (!flag.load(std::memory_order_relaxed)) flag.store(true, std::memory_order_relaxed);
}

bool fits_now(std::uint32_t device, std::uint64_t bytes) {
  return fits(ledger::used_bytes(*session.usage, device), bytes, reservable_limit(device));
}

template <typename Act>
void each_pool(std::uint32_t device, Act act) {
  const std::uint32_t end = accounts_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolAccounting& pool = all_accounts[i];
    const PoolKind kind = pool.kind.load(std::memory_order_acquire);
    if (pool.device_index == device && (kind == PoolKind::pool || kind == PoolKind::graph)) act(pool, kind);
  }
}

// Its last allocation is gone, so the destroyed pool's memory is too.
void release_destroyed_pool(PoolAccounting& destroyed) {
  const bare::Locked table(pool_table_lock);
  if (destroyed.kind.load(std::memory_order_relaxed) != PoolKind::destroyed) return;
  {
    const bare::Locked guard(destroyed.lock);
    destroyed.reserved = 0;
    level_accounting(destroyed);
  }
  if (destroyed.tracked) tracked_pools.fetch_sub(1);
  destroyed.handle.store(0, std::memory_order_relaxed);
  destroyed.kind.store(PoolKind::none, std::memory_order_release);
}

void release_empty_destroyed_pools() {
  const std::uint32_t end = accounts_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolKind destroyed = PoolKind::destroyed;
    PoolAccounting& pool = all_accounts[i];
    if (pool.kind.load(std::memory_order_acquire) != destroyed || pool.outstanding.load() != 0) continue;
    release_destroyed_pool(pool);
  }
}

Remembered& remembered_at(PoolAccounting& pool, std::uint64_t address) {
  return pool.remembered[(address * 0x9e37'79b9'7f4a'7c15ull) >> 58];
}
static_assert(kRemembered == 1 << (64 - 58));

}  // namespace

PoolAccounting* current_pool_accounting(const Place& place) {
  if (place.standing != Standing::held) return nullptr;
  PoolAccounting* known = current_accounts[place.device_index].load(std::memory_order_acquire);
  if (known != nullptr) [[likely]]
    return known;
  abi::CUmemoryPool handle = nullptr;
  const bare::KeepErrno keep_errno;
  const bool told = forward(driver.cuDeviceGetMemPool, &handle, place.device) == abi::CUDA_SUCCESS && handle != nullptr;
  if (!told) return nullptr;
  PoolAccounting* accounting = new_accounting(PoolKind::pool, handle, place, false);
  if (accounting != nullptr && accounting->kind.load() == PoolKind::foreign) return nullptr;
  current_accounts[place.device_index].store(accounting, std::memory_order_release);
  return accounting;
}

PoolAccounting* named_pool_accounting(abi::CUmemoryPool pool, Place& place) {
  if (pool == nullptr) return nullptr;
  if (PoolAccounting* accounting = find_accounting(pool); accounting != nullptr) {
    place = {Standing::held, accounting->device_index, accounting->device};
    return accounting->kind.load() == PoolKind::pool ? accounting : nullptr;
  }
  // No call creates a device's default pool, so its handle is found here.
  for (std::uint32_t device = 0; device < session.device_count; ++device) {
    abi::CUmemoryPool usual = nullptr;
    const auto ordinal = static_cast<abi::CUdevice>(device);
    if (forward(driver.cuDeviceGetDefaultMemPool, &usual, ordinal) != abi::CUDA_SUCCESS || usual != pool) continue;
    place = place_of(ordinal);
    if (place.standing == Standing::held) return new_accounting(PoolKind::pool, pool, place, false);
  }
  return nullptr;
}

bool is_foreign_pool(abi::CUmemoryPool pool) {
  const PoolAccounting* accounting = find_accounting(pool);
  return accounting != nullptr && accounting->kind.load() == PoolKind::foreign;
}

PoolRequest::PoolRequest(PoolAccounting& pool, const Place& place, std::uint64_t bytes)
    : pool_(pool), place_(place), bytes_(bytes), most_(bytes), epoch_(release_epoch.load(std::memory_order_acquire)) {
  const std::uint64_t granule = pool.granule.load(std::memory_order_relaxed);
  if (__builtin_add_overflow(bytes, granule - 1, &most_)) most_ = ~0ull;
  else most_ -= most_ % granule;
}

Verdict PoolRequest::expect(OomWait& wait) {
  const std::uint64_t most = most_;
  for (;;) {
    const Verdict verdict = try_expect(wait.in_flight);
    if (verdict != Verdict::refused) return verdict;
    if (!wait.again(place_, bytes_, Lack::share)) break;
    most_ = most;
  }
  book_refusal(place_, bytes_);
  return Verdict::refused;
}

Verdict PoolRequest::try_expect(InFlightBytes& in_flight) {
  const Verdict verdict = try_reserve_at(place_, most_, in_flight);
  if (verdict == Verdict::reserved) {
    const bare::Locked guard(pool_.lock);
    pool_.under_way += most_;
    pool_.charged += most_;
    return verdict;
  }
  if (verdict == Verdict::forward) return verdict;
  // No room to grow, but the pool's own memory may suffice: make the call with nothing reserved, as a trial, and undo
  // it if the pool grew.
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

// Settles without a driver call if the memory is known to be backed already.
bool PoolRequest::nothing_grew(std::uint64_t address) {
  const bare::Locked guard(pool_.lock);
  const Remembered& seen = remembered_at(pool_, address);
  if (seen.address != address || bytes_ > seen.bytes || seen.epoch != epoch_ ||
      epoch_ != release_epoch.load(std::memory_order_acquire) || coarse_now_ns() - pool_.read_at >= kTrusted)
    return false;
  pool_.under_way -= most_;
  level_accounting(pool_);
  return true;
}

abi::CUresult PoolRequest::settle(abi::CUresult result, const abi::CUdeviceptr* address) {
  std::uint32_t trials = most_ == 0 ? 1 : 0;
  const bool made = result == abi::CUDA_SUCCESS;
  bool kept = made;
  if (!made) {
    // A driver that fails may have released memory first.
    release_epoch.fetch_add(1, std::memory_order_relaxed);
    settle_accounting(pool_, most_, true, trials);
  } else if (!nothing_grew(*address)) {
    kept = settle_accounting(pool_, most_, false) == 0;
    if (!kept) {
      ++trials;
      // Not used yet, so it need not wait for its stream (cuda.h, cuMemFree: no synchronisation for pool memory).
      forward(driver.cuMemFree_v2, *address);
      trim_pool(pool_, PoolKind::pool);
      settle_accounting(pool_, 0, true, trials);
      book_refusal(place_, bytes_);
      result = abi::CUDA_ERROR_OUT_OF_MEMORY;
    } else {
      const bare::Locked guard(pool_.lock);
      remembered_at(pool_, *address) = {*address, bytes_, epoch_};
    }
  }
  end_trials(pool_, trials);
  if (made && !kept)
    settle_accounting(pool_, 0, true);  // charge what the driver did not take back, whatever call grew it
  if (kept && pool_.tracked) {
    pool_pointers.put(*address, {static_cast<std::uint64_t>(&pool_ - all_accounts), place_.device_index, 0});
    pool_.outstanding.fetch_add(1);
  }
  return result;
}

void pool_made(abi::CUmemoryPool pool, const Place& place) { new_accounting(PoolKind::pool, pool, place, true); }

void foreign_pool_made(abi::CUmemoryPool pool) { new_accounting(PoolKind::foreign, pool, {}, false); }

void current_pools_changed() {
  for (auto& accounting : current_accounts) accounting.store(nullptr, std::memory_order_release);
}

// Pending frees keep memory after the handle is gone, and no call reports how much: what remains after a trim stays
// charged.
abi::CUresult pool_destroyed(abi::CUmemoryPool pool) {
  PoolAccounting* accounting = seated() && pool != nullptr ? find_accounting(pool) : nullptr;
  if (accounting == nullptr) return forward(driver.cuMemPoolDestroy, pool);
  const PoolKind kind = accounting->kind.load();
  // A device's default pool cannot be destroyed; a useless trim would cost what it keeps.
  if (kind == PoolKind::pool && accounting->tracked) {
    trim_pool(*accounting, kind);
    settle_accounting(*accounting, 0, true);
  }
  // Hide it from here on: the handle may be reused for another pool before the call returns.
  if (kind == PoolKind::foreign || accounting->tracked) {
    accounting->handle.store(0, std::memory_order_relaxed);
    accounting->kind.store(PoolKind::destroyed, std::memory_order_release);
  }
  current_pools_changed();
  const abi::CUresult result = forward(driver.cuMemPoolDestroy, pool);
  current_pools_changed();
  if (result != abi::CUDA_SUCCESS) {
    accounting->handle.store(reinterpret_cast<std::uintptr_t>(pool), std::memory_order_relaxed);
    accounting->kind.store(kind, std::memory_order_release);
    return result;
  }
  if (kind == PoolKind::foreign) accounting->kind.store(PoolKind::none, std::memory_order_release);
  else if (accounting->outstanding.load() == 0 && accounting->reserved == 0) release_destroyed_pool(*accounting);
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
  PoolAccounting& pool = all_accounts[noted_.bytes % kMaxPools];
  const bool last = pool.outstanding.fetch_sub(1) == 1;
  if (last && at_once && pool.kind.load() == PoolKind::destroyed) release_destroyed_pool(pool);
  return result;
}

void pool_trimmed(abi::CUmemoryPool pool) {
  release_epoch.fetch_add(1, std::memory_order_relaxed);
  PoolAccounting* accounting = pool == nullptr ? nullptr : find_accounting(pool);
  if (accounting != nullptr && accounting->kind.load() == PoolKind::pool) settle_accounting(*accounting, 0, true);
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
  release_empty_destroyed_pools();
  for (std::uint32_t device = 0; device < session.held.device_count; ++device) settle_pools(device);
}

bool pools_under_way(std::uint32_t device) {
  bool any = false;
  each_pool(device, [&any](PoolAccounting& pool, PoolKind) {
    const bare::Locked guard(pool.lock);
    any = any || pool.under_way != 0 || pool.trials != 0;
  });
  return any;
}

bool destroyed_pools_charged(std::uint32_t device) {
  const std::uint32_t end = accounts_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < end; ++i) {
    PoolAccounting& pool = all_accounts[i];
    if (pool.device_index != device || pool.kind.load(std::memory_order_acquire) != PoolKind::destroyed) continue;
    const bare::Locked guard(pool.lock);
    if (pool.charged != 0) return true;
  }
  return false;
}

void settle_pools(std::uint32_t device) {
  if (!any_pool()) return;
  each_pool(device, [](PoolAccounting& pool, PoolKind) { settle_accounting(pool, 0, true); });
}

bool pools_make_room(const Place& place, std::uint64_t bytes) {
  if (!any_pool()) return false;
  const std::int64_t now = coarse_now_ns();
  const bool due = room_may_come.exchange(false) || now - tried_at.load(std::memory_order_relaxed) > kTryAgain;
  if (!due) return false;
  tried_at.store(now, std::memory_order_relaxed);
  settle_pools(place.device_index);
  // During a capture, only calls that cannot invalidate it.
  if (fits_now(place.device_index, bytes) || any_capture()) return true;
  trim_pools(place.device_index);
  return true;
}

void trim_pools(std::uint32_t device) {
  if (!any_pool()) return;
  each_pool(device, [](PoolAccounting& pool, PoolKind kind) {
    trim_pool(pool, kind);
    settle_accounting(pool, 0, true);
  });
}

}  // namespace headgate::limiter
