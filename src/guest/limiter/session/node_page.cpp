#include "guest/limiter/session/node_page.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/ledger/node_page.hpp"
#include "guest/limiter/session/handed.hpp"
#include "guest/limiter/session/registration.hpp"

namespace headgate::limiter {
namespace {

std::atomic<const ledger::NodePage*> page{nullptr};
HandedFile page_file;
// The reading number at which the daemon failed to deliver in time, plus 1 << 32; 0: readings arrive.
std::atomic<std::uint64_t> silent_at{0};

std::uint64_t silence_of(std::uint32_t done) { return 1ull << 32 | done; }

bool is_after(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

bool wait_for_reading(const ledger::NodePage& told) {
  std::uint32_t done = told.done.load();
  if (silent_at.load(std::memory_order_relaxed) == silence_of(done)) return false;
  const std::uint32_t begun = told.begun.load();
  const std::int64_t deadline = bare::now_ns() + ledger::kNodePatienceNs;
  // A ring is lost if the doorbell's buffer is full, so it is repeated.
  constexpr std::int64_t kRingAgainNs = 20'000'000;
  for (;;) {
    if (!ask_for_reading()) break;  // the other end is closed: the daemon has ended
    const std::int64_t again = bare::now_ns() + kRingAgainNs;
    for (std::int64_t now = 0; (now = bare::now_ns()) < again;) {
      if (is_after(done, begun)) return true;
      bare::futex_wait(&told.done, done, again - now);
      done = told.done.load();
    }
    if (is_after(done, begun)) return true;
    if (bare::now_ns() >= deadline) break;
  }
  silent_at.store(silence_of(done), std::memory_order_relaxed);
  return false;
}

}  // namespace

void take_node_page(int fd) {
  const HandedFile file = file_of(fd);
  if (page.load(std::memory_order_relaxed) != nullptr && file == page_file) {
    silent_at.store(0, std::memory_order_relaxed);
    return;
  }
  void* const at = map_handed(fd, sizeof(ledger::NodePage), PROT_READ);
  if (at == nullptr) return;
  const auto* told = static_cast<const ledger::NodePage*>(at);
  if (told->header.magic != ledger::kNodeMagic || told->header.version != ledger::kNodePageVersion ||
      told->header.bytes != sizeof(ledger::NodePage)) {
    ::munmap(at, sizeof(ledger::NodePage));
    return;
  }
  // A previous mapping stays: another thread may be waiting on it.
  silent_at.store(0, std::memory_order_relaxed);
  page_file = file;
  page.store(told, std::memory_order_release);
}

bool fresh_reading() {
  const ledger::NodePage* told = page.load(std::memory_order_acquire);
  if (told == nullptr) return false;
  const bare::KeepErrno keep_errno;
  return wait_for_reading(*told);
}

bool daemon_reads() {
  const ledger::NodePage* told = page.load(std::memory_order_acquire);
  return told != nullptr && silent_at.load(std::memory_order_relaxed) != silence_of(told->done.load());
}

namespace {

// The page if it tells about that device of the share, else null.
const ledger::NodePage* page_of(std::uint32_t device_index) {
  return device_index < ledger::kMaxDevices ? page.load(std::memory_order_acquire) : nullptr;
}

// What the page tells about that slot, else null.
const ledger::NodeSlot* slot_in(const ledger::NodePage* told, ledger::SlotRef slot) {
  if (told == nullptr || slot.slot >= ledger::kMaxSlots) return nullptr;
  const ledger::NodeSlot& seat = told->slots[slot.slot];
  return seat.generation.load(std::memory_order_acquire) == slot.generation ? &seat : nullptr;
}

}  // namespace

bool told_bytes(ledger::SlotRef slot, std::uint32_t device_index, std::uint64_t& bytes) {
  const ledger::NodeSlot* const seat = slot_in(page_of(device_index), slot);
  if (seat != nullptr) bytes = seat->driver_bytes[device_index].load(std::memory_order_relaxed);
  return seat != nullptr && bytes != ledger::kNotTold;
}

bool told_unattributed(std::uint32_t device_index, std::uint64_t& bytes) {
  const ledger::NodePage* const told = page_of(device_index);
  if (told != nullptr) bytes = told->unattributed_bytes[device_index].load(std::memory_order_relaxed);
  return told != nullptr && bytes != ledger::kNotTold;
}

std::uint64_t told_context_bytes(std::uint32_t device_index) {
  const ledger::NodePage* const told = page_of(device_index);
  return told == nullptr ? 0 : told->context_bytes[device_index].load(std::memory_order_relaxed);
}

std::uint32_t told_sm_percent(ledger::SlotRef slot, std::uint32_t device_index) {
  const ledger::NodePage* const told = page_of(device_index);
  const ledger::NodeSlot* const seat = slot_in(told, slot);
  if (seat == nullptr || (seat->mps_devices.load(std::memory_order_relaxed) >> device_index & 1) == 0) return 0;
  return told->sm_percent[device_index].load(std::memory_order_relaxed);
}

void node_page_reset_after_fork() {
  page.store(nullptr, std::memory_order_relaxed);
  silent_at.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
