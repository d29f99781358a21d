// Small requests of linear memory share slabs of 2 MiB. The card loses a whole slab with its first piece and gets it
// back with its last. If the driver does so (learned from the change in free memory), a slab is charged with its first
// piece and given back with its last; pieces in between are free.
//
// A slab is identified by its address: slabs are aligned to their size.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

inline constexpr std::uint64_t kSlabBytes = 2 << 20;
inline constexpr std::uint64_t kLargestPiece = 1 << 20;

// no_slabs: the driver is known to have none, on any GPU; then no request probes further. slab_charged: one was
// charged.
extern std::atomic<bool> no_slabs, slab_charged;

// Returns whether a request on that place may be a piece of a slab: it is small, and the driver may have slabs.
bool may_have_slabs(const Place& place);
inline bool may_be_piece(const Place& place, std::uint64_t bytes) {
  return bytes <= kLargestPiece && !no_slabs.load(std::memory_order_relaxed) && may_have_slabs(place);
}

// Returns what must fit the share before a piece is requested: a slab if the driver is known to have them.
std::uint64_t bytes_for_piece(std::uint32_t device_index, std::uint64_t bytes);

// For use around the driver's call for a piece. Learns whether there are slabs, unless known.
class PieceProbe {
 public:
  explicit PieceProbe(std::uint32_t device_index);
  // Call after success. Records the piece and returns what it takes beyond what is charged: nothing in an existing
  // slab, all of a new one, else the piece itself.
  std::uint64_t taken(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner) const;

 private:
  std::uint32_t device_index_;
  std::size_t free_before_;
};

// Call when a piece is gone. Returns what to give back: its own bytes if its slab is unknown or not charged; else
// nothing, or with the last piece all that is left of the slab. exported: the piece's own bytes are given back
// elsewhere.
std::uint64_t recorded_piece_gone(std::uint64_t address, std::uint64_t bytes, bool exported);
inline std::uint64_t piece_gone(std::uint64_t address, std::uint64_t bytes, bool exported) {
  const bool recorded = !no_slabs.load(std::memory_order_relaxed) || slab_charged.load(std::memory_order_relaxed);
  if (recorded && bytes <= kLargestPiece) return recorded_piece_gone(address, bytes, exported);
  return exported ? 0 : bytes;
}

// Records an array of that size. The driver reports no address for it, so it may have taken a slab. After 32 arrays the
// residual is measured before the next request, so that they hide at most 64 MiB.
void small_array_came(std::uint32_t device_index, std::uint64_t bytes);

// Call before and after the driver destroys a context: adds what its slabs are charged beyond their pieces, by device.
void slabs_may_go(std::uint64_t context);
void slabs_gone(std::uint64_t context, std::uint64_t (&bytes)[ledger::kMaxAccounts]);

void slabs_reset_after_fork();

}  // namespace headgate::limiter
