// Small requests of linear memory share slabs of 2 MiB, of which the card loses all with the first piece and has all
// back with the last. Where the driver does so (learnt from what the card has less after one), a slab is charged with
// its first piece and given back with its last; in between pieces come and go within it.
//
// A slab is known by its address: slabs are aligned to their size.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

inline constexpr std::uint64_t kSlabBytes = 2 << 20;
inline constexpr std::uint64_t kLargestPiece = 1 << 20;

// The driver is known to have none, on whichever GPU: then no request asks further.
extern std::atomic<bool> no_slabs;

// Whether a request on that place may be a piece of a slab: it is small, and the driver is not known to have none.
bool may_be_piece(const Place& place, std::uint64_t bytes);

// What has to fit the share before the driver is asked for a piece: a slab where it is known to have them.
std::uint64_t bytes_for_piece(std::uint32_t device_index, std::uint64_t bytes);

// Around the driver's call for a piece. Learns whether there are slabs, unless that is known.
class PieceProbe {
 public:
  explicit PieceProbe(std::uint32_t device_index);
  // After the driver's success: notes the piece, and says what it takes beyond what is charged already: nothing in a
  // slab that is, all of one that is new, else the piece itself.
  std::uint64_t taken(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner) const;

 private:
  std::uint32_t device_index_;
  std::size_t free_before_;
};

// A piece is gone: what of the account goes with it. Its own bytes, where its slab is not charged or not known;
// else nothing, and all that is left of the slab with the last piece. exported: the piece's own bytes are given back
// elsewhere.
std::uint64_t piece_gone(std::uint64_t address, std::uint64_t bytes, bool exported);

// Notes an array of so many bytes. The driver tells no address of it, so it may have taken a slab. After 32 of
// them the residual is measured before the next request, so that they never hide more than 64 MiB.
void small_array_came(std::uint32_t device_index, std::uint64_t bytes);

// Before and after the driver destroys a context: adds what is charged of its slabs beyond their pieces, by device.
void slabs_may_go(std::uint64_t context);
void slabs_gone(std::uint64_t context, std::uint64_t (&bytes)[ledger::kMaxAccounts]);

void slabs_reset_after_fork();

}  // namespace headgate::limiter
