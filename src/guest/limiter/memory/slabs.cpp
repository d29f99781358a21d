#include "guest/limiter/memory/slabs.hpp"

#include <atomic>
#include <utility>

#include "guest/bare/short_lock.hpp"
#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/untold.hpp"

namespace headgate::limiter {
namespace {

// In the share's page, in the class of small requests: the result of one request, with kSure once two agree.
enum Known : std::uint8_t { kNothing = 0, kNoSlabs = 1, kSlabs = 22 };
constexpr std::uint8_t kSure = 0x80;

// Limits the requests examined. A driver that shows nothing after the first few has no recognisable slabs.
constexpr std::uint32_t kLooks = 64, kFirstLooks = 8;
constinit std::atomic<std::uint32_t> looks{0};

// By the slab's address. pieces: their number and total size (Pieces). spare: what is charged for the slab beyond its
// pieces; a slab without an entry is not charged. Both change under the lock.
constinit AllocationTable pieces, spare;
constinit bare::ShortLock lock;
constinit std::atomic<std::uint32_t> arrays_came[ledger::kMaxDevices];

// The driver may reuse a freed piece's place for another thread before piece_gone() is called: until then the pieces'
// total exceeds the slab.
struct Pieces {
  std::uint64_t count = 0, bytes = 0;
  explicit Pieces(const Allocation& packed) : count(packed.bytes & 0xffff), bytes(packed.bytes >> 16) {}
  [[nodiscard]] std::uint64_t packed() const { return count | bytes << 16; }
  [[nodiscard]] std::uint64_t spare() const { return bytes < kSlabBytes ? kSlabBytes - bytes : 0; }
};

std::uint64_t slab_of(std::uint64_t address) { return address & ~(kSlabBytes - 1); }

std::atomic<std::uint8_t>& known(std::uint32_t device) { return session.usage->compute[device].rounding[0]; }

bool is_sure(std::uint8_t value) { return (value & kSure) != 0; }

void learn(std::uint32_t device, Known seen) {
  std::atomic<std::uint8_t>& value = known(device);
  if (is_sure(value.load(std::memory_order_relaxed))) return;  // frees by other threads may look like anything
  const bool again = value.load(std::memory_order_relaxed) == seen;
  value.store(static_cast<std::uint8_t>(again ? seen | kSure : +seen), std::memory_order_relaxed);
}

bool has_slabs(std::uint32_t device) {
  return (known(device).load(std::memory_order_relaxed) & ~kSure & 0xff) == kSlabs;
}

}  // namespace

constinit std::atomic<bool> no_slabs{false}, slab_charged{false};

bool may_have_slabs(const Place& place) {
  if (place.standing != Standing::held || !seated() || place.device_index >= ledger::kMaxDevices) return false;
  const std::uint8_t value = known(place.device_index).load(std::memory_order_relaxed);
  const bool ruled_out =
      value == kNothing ? looks.load(std::memory_order_relaxed) >= kFirstLooks : value == (kNoSlabs | kSure);
  if (ruled_out) no_slabs.store(true, std::memory_order_relaxed);
  return !ruled_out;
}

std::uint64_t bytes_for_piece(std::uint32_t device_index, std::uint64_t bytes) {
  return has_slabs(device_index) ? kSlabBytes : bytes;
}

PieceProbe::PieceProbe(std::uint32_t device_index) : device_index_(device_index), free_before_(SIZE_MAX) {
  if (is_sure(known(device_index).load(std::memory_order_relaxed)) || looks.load(std::memory_order_relaxed) >= kLooks)
    return;
  looks.fetch_add(1, std::memory_order_relaxed);
  free_before_ = free_on_card();
}

std::uint64_t PieceProbe::taken(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner) const {
  std::uint64_t lost = kUntold;
  if (free_before_ != SIZE_MAX) {
    const std::size_t now = free_on_card();
    if (now != SIZE_MAX && now <= free_before_) lost = free_before_ - now;
  }
  const std::uint64_t slab = slab_of(address);
  const bare::Locked locked(lock);
  Allocation entry{0, device_index_, owner}, rest;
  const bool is_new = !pieces.take(slab, entry);
  Pieces all(entry);
  ++all.count;
  all.bytes += bytes;
  entry.bytes = all.packed();
  pieces.put(slab, entry);
  // A whole slab for a first piece, or only the piece.
  if (is_new && lost == kSlabBytes) learn(device_index_, kSlabs);
  else if (lost == bytes) learn(device_index_, kNoSlabs);
  if (is_new && has_slabs(device_index_)) {
    slab_charged.store(true, std::memory_order_relaxed);
    spare.put(slab, {all.spare(), device_index_, owner});
    return bytes + all.spare();
  }
  if (is_new || !spare.take(slab, rest)) return bytes;
  const std::uint64_t before = std::exchange(rest.bytes, all.spare());
  spare.put(slab, rest);
  return bytes + rest.bytes - before;
}

std::uint64_t recorded_piece_gone(std::uint64_t address, std::uint64_t bytes, bool exported) {
  const std::uint64_t own = exported ? 0 : bytes;
  if (!seated()) return own;
  const std::uint64_t slab = slab_of(address);
  const bare::Locked locked(lock);
  Allocation entry, rest;
  if (!pieces.take(slab, entry)) return own;
  Pieces all(entry);
  --all.count;
  all.bytes -= own;  // exported bytes stay in the slab
  entry.bytes = all.packed();
  if (all.count != 0) pieces.put(slab, entry);
  if (!spare.take(slab, rest)) return own;
  const std::uint64_t before = std::exchange(rest.bytes, all.spare());
  if (all.count == 0) return own + before;
  spare.put(slab, rest);
  return own + before - rest.bytes;
}

void small_array_came(std::uint32_t device_index, std::uint64_t bytes) {
  constexpr std::uint32_t kUnmeasured = 32;
  if (bytes > kLargestPiece || no_slabs.load(std::memory_order_relaxed) || !seated() ||
      device_index >= ledger::kMaxDevices || known(device_index).load(std::memory_order_relaxed) == (kNoSlabs | kSure))
    return;
  if (arrays_came[device_index].fetch_add(1, std::memory_order_relaxed) % kUnmeasured == kUnmeasured - 1)
    residual_is_due(device_index);
}

void slabs_may_go(std::uint64_t context) {
  const bare::Locked locked(lock);
  pieces.mark_owned(context);
  spare.mark_owned(context);
}

void slabs_gone(std::uint64_t context, std::uint64_t (&bytes)[ledger::kMaxAccounts]) {
  const bare::Locked locked(lock);
  std::uint64_t counts[ledger::kMaxAccounts] = {};
  pieces.sweep_marked(context, counts);
  spare.sweep_marked(context, bytes);
}

void slabs_reset_after_fork() {
  no_slabs.store(false, std::memory_order_relaxed);
  slab_charged.store(false, std::memory_order_relaxed);
  lock.reset();
  pieces.forget_after_fork();
  spare.forget_after_fork();
}

}  // namespace headgate::limiter
