#include "guest/limiter/memory/charge.hpp"

#include <time.h>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/ledger/account.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/memory/host_memory.hpp"
#include "guest/limiter/memory/mapped.hpp"
#include "guest/limiter/memory/memory.hpp"
#include "guest/limiter/memory/memory_thread.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/slabs.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/session/green_contexts.hpp"

namespace headgate::limiter {

constinit AllocationTable pointers;
constinit AllocationTable arrays;

namespace {

// Events of may_say(): refusals from 0, GPUs outside the share from kMaxDevices, then no GPU at all.
constexpr std::uint32_t kOutsideEvent = ledger::kMaxDevices;
constexpr std::uint32_t kUnknownEvent = 2 * ledger::kMaxDevices;

std::atomic<std::int64_t> reaped_at;

// Looks for dead processes of the share before a refusal; at most once per clock tick (1 to 4 ms), since a program may
// retry on a full share and each look costs system calls.
bool reap_now_and_then(std::int64_t now) {
  std::int64_t last = reaped_at.load(std::memory_order_relaxed);
  if (last == now || !reaped_at.compare_exchange_strong(last, now, std::memory_order_relaxed)) return false;
  const bare::KeepErrno keep_errno;
  return reap_the_dead() != 0;
}

std::atomic<std::int64_t> remeasured_at;
constexpr std::int64_t kRemeasureEvery = 100'000'000;

// Measures the residual again before refusing because of it, as the last value may be old; at most ten times a second.
bool remeasure_now_and_then(const Place& place, std::int64_t now) {
  if (own_residual(place.device_index) == 0) return false;
  std::int64_t last = remeasured_at.load(std::memory_order_relaxed);
  if (now - last < kRemeasureEvery || !remeasured_at.compare_exchange_strong(last, now)) return false;
  const bare::KeepErrno keep_errno;
  refresh_residual(place.device_index);
  return true;
}

std::atomic<std::int64_t> settled_at;
constexpr std::int64_t kSettleEvery = 10'000'000;

// Checks whether draining memory (of dead processes, or freed elsewhere) is gone by now.
bool settle_now_and_then(std::uint32_t device, std::int64_t now) {
  std::int64_t last = settled_at.load(std::memory_order_relaxed);
  if (now - last < kSettleEvery || !settled_at.compare_exchange_strong(last, now)) return false;
  return settle_draining(device);
}

std::uint64_t less(std::uint64_t limit, std::uint64_t residual) {
  return limit == ledger::kNoMemoryLimit ? limit : bare::saturating_sub(limit, residual);
}

bool being_drained() { return ledger::is_draining(*session.policy); }

// `used` and `limit` as shown to the owner, residual included.
void say_refused(std::uint32_t device, std::uint64_t bytes, std::uint64_t used, std::uint64_t limit) {
  if (!log_wanted(LogLevel::warn) || !may_say(device)) return;
  if (being_drained()) {
    log_line(LogLevel::warn, "share %s: %lu bytes refused on GPU %u: the share is being drained", session.held.name,
             static_cast<unsigned long>(bytes), device);
    return;
  }
  log_line(LogLevel::warn, "share %s: %lu bytes refused on GPU %u: %lu of %lu bytes are in use", session.held.name,
           static_cast<unsigned long>(bytes), device, static_cast<unsigned long>(used),
           static_cast<unsigned long>(limit));
}

constexpr std::int64_t kTeardownPatienceNs = 100'000'000;

// After a process's death the card may show its memory for some milliseconds, which is no reason to refuse its
// successor. Waits until 100 ms after the death was seen, while enough memory is draining.
bool wait_for_teardown(std::uint32_t device, std::uint64_t bytes, std::uint64_t granted) {
  // Without a death the usual refusal costs nothing more. A daemon that starts may just have settled one, though.
  if (ledger::torn_on(*session.usage, device).bytes == 0) return fits(bytes_in_use(device), bytes, granted);
  while (true) {
    const ledger::Torn torn = ledger::torn_on(*session.usage, device);
    const std::uint64_t used = bytes_in_use_now(device);
    if (fits(used, bytes, granted)) return true;
    const std::int64_t age_ns = bare::host_ns() - torn.died_ns;
    if (torn.bytes == 0 || age_ns > kTeardownPatienceNs) return false;
    if (!fits(used > torn.bytes ? used - torn.bytes : 0, bytes, granted)) return false;
    const bare::KeepErrno keep_errno;
    const timespec shortly{0, 4'000'000};
    ::nanosleep(&shortly, nullptr);
    settle_draining(device);
  }
}

}  // namespace

std::uint64_t reservable_limit(std::uint32_t device) {
  const std::uint64_t limit = granted_bytes(device);
  return limit == ledger::kNoMemoryLimit ? limit : less(limit, share_residual(device, coarse_now_ns()));
}

Verdict reserve_at(const Place& place, std::uint64_t bytes, OomWait& wait, Fallback fallback) {
  for (;;) {
    const Verdict verdict = try_reserve_at(place, bytes, wait.in_flight);
    if (verdict == Verdict::reserved) pools_may_shrink();
    if (verdict != Verdict::refused || place.standing != Standing::held) return verdict;
    if (fallback == Fallback::host && !being_drained() && reserve_on_host(place.device_index, bytes))
      return Verdict::on_host;
    if (wait.again(place, bytes, Lack::share)) continue;
    book_refusal(place, bytes);
    return verdict;
  }
}

void book_refusal(const Place& place, std::uint64_t bytes) {
  const std::uint32_t device = place.device_index;
  ledger::UsagePage& usage = *session.usage;
  const std::uint64_t granted = granted_bytes(device);
  const std::uint64_t used = bytes_in_use(device);
  const ledger::Denial by = being_drained() ? ledger::Denial::policy : ledger::Denial::limit;
  ledger::note_refusal(usage, device, own_slot(), {bytes, used, granted, by});
  say_refused(device, bytes, used, granted);
}

void book_driver_refusal(const Place& place, std::uint64_t bytes) {
  if (place.standing != Standing::held || !seated()) return;
  const std::uint32_t device = place.device_index;
  const std::uint64_t granted = granted_bytes(device);
  const std::uint64_t used = bytes_in_use(device);
  ledger::note_refusal(*session.usage, device, own_slot(), {bytes, used, granted, ledger::Denial::device_full});
}

namespace {

Verdict look_for_room(const Place& place, std::uint64_t bytes, InFlightBytes& in_flight) {
  if (place.standing == Standing::free) return Verdict::forward;
  if (place.standing == Standing::unknown) {
    const bool closed = session.policy->fail_policy == ledger::FailPolicy::closed;
    if (may_say(kUnknownEvent)) {
      log_line(LogLevel::error, "the driver does not say which GPU is current: memory is %s",
               closed ? "refused" : "not counted");
    }
    return closed ? Verdict::refused : Verdict::forward;
  }
  if (place.standing == Standing::outside) {
    if (may_say(kOutsideEvent + static_cast<std::uint32_t>(place.device) % ledger::kMaxDevices)) {
      log_line(LogLevel::error, "GPU %d is not in this process's share: memory is refused there", place.device);
    }
    return Verdict::refused;
  }
  if (being_drained()) return Verdict::refused;
  const std::uint32_t device = place.device_index;
  ledger::UsagePage& usage = *session.usage;
  measure_residual_if_due(device);
  const std::int64_t now = coarse_now_ns();
  const std::uint64_t granted = granted_bytes(device);
  std::uint64_t residual = share_residual(device, now);
  bool room = fits(ledger::used_bytes(usage, device), bytes, less(granted, residual));
  if (!room && (int{reap_now_and_then(now)} | int{remeasure_now_and_then(place, now)} |
                int{settle_now_and_then(device, now)} | int{pools_make_room(place, bytes)}) != 0) {
    residual = share_residual_now(device);
    room = true;
  }
  if (!room || !fits(ledger::used_bytes(usage, device), bytes, less(granted, residual))) {
    if (!wait_for_teardown(device, bytes, granted)) return Verdict::refused;
    residual = share_residual_now(device);
  }
  in_flight.begin(device);
  if (ledger::reserve(usage, device, own_slot(), bytes, less(granted, residual)).ok) return Verdict::reserved;
  in_flight.end();
  return Verdict::refused;
}

// Returns whether a process of the share moves bytes from its account to its residual: both have them just now.
bool bytes_move(std::uint32_t device) {
  bool any = false;
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    any |= at.kind == ledger::SlotKind::live && at.slot.devices[device].moves.load(std::memory_order_acquire) != 0;
  });
  return any;
}

constexpr int kMostLooks = 50;  // a process that is stopped while its bytes move delays a refusal by 10 ms
constexpr timespec kBetweenLooks{0, 200'000};

}  // namespace

// Account and residuals are not read at one instant. If a residual changed meanwhile, bytes that moved may have been
// seen in neither or in both.
Verdict try_reserve_at(const Place& place, std::uint64_t bytes, InFlightBytes& in_flight) {
  if (place.standing != Standing::held) return look_for_room(place, bytes, in_flight);
  const std::uint32_t device = place.device_index;
  const auto& residuals = session.usage->residuals;
  for (int looks = 1;; ++looks) {
    const std::uint32_t before = residuals.load(std::memory_order_acquire);
    const Verdict verdict = look_for_room(place, bytes, in_flight);
    const bool moved = residuals.load(std::memory_order_acquire) != before;
    if (verdict == Verdict::reserved) {
      if (!moved || growth_fits(device, bytes)) return verdict;
      ledger::unreserve(*session.usage, device, own_slot(), bytes);
      in_flight.end();
    }
    if (looks == kMostLooks || being_drained()) return Verdict::refused;
    if (bytes_move(device)) {
      const bare::KeepErrno keep_errno;
      ::nanosleep(&kBetweenLooks, nullptr);
    } else if (!moved) {
      return Verdict::refused;
    }
  }
}

std::uint64_t owner_here() {
  Current current;
  return current_context(current) == abi::CUDA_SUCCESS ? reinterpret_cast<std::uintptr_t>(root_of(current.context)) : 0;
}

void context_memory_may_go(std::uint64_t context) {
  if (context == 0 || !seated()) return;
  slabs_may_go(context);
  pointers.mark_owned(context);
  arrays.mark_owned(context);
  ipc_exports.mark_owned(context);
}

void context_memory_gone(std::uint64_t context) {
  if (context == 0 || !seated()) return;
  std::uint64_t bytes[ledger::kMaxAccounts] = {};
  pointers.sweep_marked(context, bytes);
  arrays.sweep_marked(context, bytes);
  slabs_gone(context, bytes);
  std::uint64_t exported[ledger::kMaxAccounts] = {};
  ipc_exports.sweep_marked(context, exported);
  for (std::uint32_t account = 0; account < ledger::kMaxAccounts; ++account) {
    hand_back(account, bytes[account] - exported[account]);
    let_go({exported[account], account, true});
  }
  current_pools_changed();
  memory_forget_streams();
  for (std::uint32_t device = 0; device < session.held.device_count; ++device) settle_pools(device);
}

void freed(std::uint64_t key, const Allocation& holding) {
  const bool exported = take_ipc_export(key);
  if (exported) let_go({holding.bytes, holding.device_index, true});
  hand_back(holding.device_index, piece_gone(key, holding.bytes, exported));
}

void freed_unknown(std::uint64_t key) { let_go(mapped_unmapped(key)); }

void keep(AllocationTable& holdings, std::uint64_t key, const Allocation& holding) {
  holdings.put(key, holding);
  note_peaks(holding.device_index);
  residual_moved(holding.device_index);
}

void hand_back_unused(std::uint32_t account, std::uint64_t bytes) {
  if (bytes == 0) return;
  ledger::unreserve(*session.usage, account, own_slot(), bytes);
  residual_moved(account);
}

void hand_back(std::uint32_t account, std::uint64_t bytes) {
  if (bytes == 0) return;
  ledger::give_back(*session.usage, account, own_slot(), bytes);
  residual_moved(account);
}

void becomes_residual(std::uint32_t device, std::uint64_t bytes) {
  if (bytes == 0 || device >= ledger::kMaxDevices) return;
  std::atomic<std::uint32_t>& moves = own_books(device).moves;
  moves.fetch_add(1);
  residual_rises(device, bytes);
  ledger::unreserve(*session.usage, device, own_slot(), bytes);
  session.usage->residuals.fetch_add(1, std::memory_order_release);
  moves.fetch_sub(1);
}

bool grow_reservation(std::uint32_t device, std::uint64_t bytes) {
  return bytes == 0 || ledger::reserve(*session.usage, device, own_slot(), bytes, reservable_limit(device)).ok;
}

void allocations_reset_after_fork() {
  pointers.forget_after_fork();
  arrays.forget_after_fork();
  untold.forget_after_fork();
}

}  // namespace headgate::limiter
