#include "guest/limiter/memory/draining.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"

namespace headgate::limiter {

constinit AllocationTable ipc_exports;

namespace {

std::atomic<bool> imports{false};
std::atomic<bool> any_ipc_exports{false};  // false: frees skip the lookup

// A driver may list a process for a while after its end; its memory is then an orphan's.
bool has_left_an_orphan(unsigned pid) {
  bool left = false;
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    left = left || (at.kind == ledger::SlotKind::orphan && at.pid == pid);
  });
  return left || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
}

struct Listed {
  std::uint64_t bytes;
  bool self;
};

bool sum_processes(abi::nvmlDevice_t device, ProcessList& list, Listed& out) {
  out = {};
  unsigned count = 0;
  if (list_processes(device, Listing::compute, list, count) != abi::NVML_SUCCESS) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].usedGpuMemory == ~0ull) return false;
    if (has_left_an_orphan(list[i].pid)) continue;
    out.bytes += list[i].usedGpuMemory;
    out.self = out.self || list[i].pid == static_cast<unsigned>(::getpid());
  }
  return true;
}

// Returns what the share's living processes hold by the ledger and have not freed; needs no process list.
std::uint64_t held_by_the_living(std::uint32_t device) {
  std::uint64_t sum = 0;
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    if (at.kind != ledger::SlotKind::live) return;
    const std::uint64_t held = ledger::held_bytes(*session.usage, device, at.index);
    const std::uint64_t draining = at.slot.devices[device].draining_bytes.load(std::memory_order_relaxed);
    sum = bare::saturating_add(sum, bare::saturating_sub(held, draining));
  });
  return sum;
}

// Returns an upper bound for existing bytes that no process holds. Lists processes before and after and uses the
// smaller sum, so memory that changed meanwhile can only raise the result. ~0: NVML fails. Sets `blind` if there is no
// NVML or its list lacks this process; then the ledger replaces the list. An NVML that fails just now is neither.
std::uint64_t most_unattributed(std::uint32_t device_index, bool& blind) {
  blind = !load_nvml();
  if (!nvml_ready()) return ~0ull;
  abi::nvmlDevice_t device = nullptr;
  if (find_card(device_index, device) != abi::NVML_SUCCESS) return ~0ull;
  const bare::Scratch<ProcessList> list;
  if (!list) return ~0ull;
  const std::uint64_t held_before = held_by_the_living(device_index);
  Listed before, after;
  abi::nvmlMemory_v2_t memory{};
  memory.version = sizeof memory | 2u << 24;
  const bool listed = sum_processes(device, *list, before) &&
                      forward(nvml.nvmlDeviceGetMemoryInfo_v2, device, &memory) == abi::NVML_SUCCESS &&
                      sum_processes(device, *list, after);
  if (!listed) return ~0ull;
  const std::uint64_t held_after = held_by_the_living(device_index);
  blind = !after.self && held_after != 0;
  const std::uint64_t shown = before.bytes < after.bytes ? before.bytes : after.bytes;
  const std::uint64_t held = held_before < held_after ? held_before : held_after;
  const std::uint64_t attributed = blind && held > shown ? held : shown;
  return memory.used > attributed ? memory.used - attributed : 0;
}

bool settle(std::uint32_t device) {
  const bare::Scratch<ledger::Draining> room;
  if (!room) return false;
  ledger::Draining& seen = *room;
  ledger::see_draining(*session.usage, device, seen);
  if (seen.bytes == 0) return false;
  bool blind = false, also_blind = false;
  std::uint64_t alive = ~0ull;
  // The daemon knows the living processes by host pid, and reads twice as we do.
  if (!fresh_reading() || !told_unattributed(device, alive)) {
    alive = most_unattributed(device, blind);
    // Read twice: concurrent allocations and frees are unlikely to disturb both readings alike.
    const std::uint64_t again = most_unattributed(device, also_blind);
    alive = alive > again ? alive : again;
  }
  // In a container, NVML may be missing or show no process. Then what dead processes left is gone once no other process
  // of the share can hold it.
  if (blind && also_blind && !imports.load(std::memory_order_relaxed) && ledger::live_slots(*session.usage) == 1 &&
      (!seated() || seen.of_slot[session.slot] == 0)) {
    alive = 0;
  }
  if (alive >= seen.bytes) return false;
  const std::uint64_t before = ledger::used_bytes(*session.usage, device);
  ledger::settle_draining(*session.usage, device, seated() ? own_slot() : ledger::SlotRef{}, seen, seen.bytes - alive);
  return ledger::used_bytes(*session.usage, device) < before;
}

constexpr std::uint32_t kGivenUpEvent = 60;  // of may_say()

}  // namespace

std::uint32_t reap_the_dead() {
  const std::uint64_t before = session.usage->teardowns_given_up.load(std::memory_order_relaxed);
  // If NVML does not list this process, it never shows dead processes' memory as gone; a daemon does.
  const bool seen_gone = daemon_reads() || (seated() ? nvml_lists_us() : nvml_ready());
  const std::uint32_t reaped =
      ledger::reap_dead(*session.usage, seen_gone ? ledger::Remains::draining : ledger::Remains::none);
  const std::uint64_t given_up = session.usage->teardowns_given_up.load(std::memory_order_relaxed) - before;
  if (given_up != 0 && may_say(kGivenUpEvent))
    log_line(LogLevel::warn,
             "share %s: %lu bytes of dead processes given back after 10 s, without having been seen gone",
             session.held.name, static_cast<unsigned long>(given_up));
  return reaped;
}

namespace {

std::atomic<std::int64_t> ticked_at, looked_at;
std::atomic<std::int64_t> settled_tick[ledger::kMaxDevices];

// Checks each process with one system call, if its pid is valid in this namespace.
bool one_is_gone() {
  const std::uint32_t here = own_namespace();
  bool gone = false;
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    if (gone || at.kind != ledger::SlotKind::live || at.slot.who.load(std::memory_order_relaxed) >> 32 != here) return;
    gone = ::kill(static_cast<pid_t>(at.pid), 0) != 0 && errno == ESRCH;
  });
  return gone;
}

}  // namespace

void look_for_the_dead() {
  const std::int64_t now = coarse_now_ns();
  if (ticked_at.exchange(now, std::memory_order_relaxed) == now) return;
  const bare::KeepErrno keep_errno;
  if (now - looked_at.load(std::memory_order_relaxed) >= kDeadEachNs || one_is_gone()) {
    looked_at.store(now, std::memory_order_relaxed);
    reap_the_dead();
  }
}

void settle_draining_in_time(std::uint32_t device) {
  const std::int64_t now = coarse_now_ns();
  if (settled_tick[device].exchange(now, std::memory_order_relaxed) != now) settle_draining(device);
}

void note_exported(std::uint32_t device, std::uint64_t bytes) {
  ledger::add_exported(*session.usage, device, own_slot(), bytes);
}

void note_not_exported(std::uint32_t device, std::uint64_t bytes) {
  ledger::sub_exported(*session.usage, device, own_slot(), bytes);
}

void note_import() { imports.store(true, std::memory_order_relaxed); }

void let_go(const Released& object) {
  if (object.bytes == 0) return;
  if (!object.exported || object.device_index >= ledger::kMaxDevices) {
    hand_back(object.device_index, object.bytes);
    return;
  }
  ledger::add_draining(*session.usage, object.device_index, own_slot(), object.bytes);
  settle_draining(object.device_index);
}

void put_ipc_export(std::uint64_t address, const Allocation& holding) {
  any_ipc_exports.store(true, std::memory_order_relaxed);
  ipc_exports.put(address, holding);
}

bool take_ipc_export(std::uint64_t address) {
  if (!any_ipc_exports.load(std::memory_order_relaxed)) [[likely]]
    return false;
  Allocation holding;
  return ipc_exports.take(address, holding);
}

bool settle_draining(std::uint32_t device) {
  if (session.usage == nullptr || ledger::draining_bytes(*session.usage, device) == 0) return false;
  const bare::KeepErrno keep_errno;
  return settle(device);
}

std::uint64_t own_draining(std::uint32_t device) {
  return own_books(device).draining_bytes.load(std::memory_order_relaxed);
}

std::uint64_t exported_by_share(std::uint32_t device) {
  std::uint64_t sum = 0;
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    if (at.kind != ledger::SlotKind::live && at.kind != ledger::SlotKind::orphan) return;
    sum = bare::saturating_add(sum, at.slot.devices[device].exported_bytes.load(std::memory_order_relaxed));
  });
  return sum;
}

void draining_reset_after_fork() {
  ipc_exports.forget_after_fork();
  imports.store(false, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
