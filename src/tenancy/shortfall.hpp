// What a share that does not fit lacks, and whether another one would take of it: the arithmetic of admission, for
// those who wait. Pure, and without a copy of the books, so that a long line is looked through in little time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenancy/admission.hpp"

namespace headgate::tenancy {

// Of each of books.cards, in their order.
[[nodiscard]] std::vector<Committed> committed_of(const Books& books);
// Adds what the share would have committed, had it been let in. An overcommitted share gets nothing committed.
void commit(const Share& share, std::span<const Card> cards, const Reserve& reserve, std::span<Committed> committed);

struct Shortfall {
  std::string uuid;
  std::uint64_t memory_bytes = 0;
  std::uint64_t guarantee_ppm = 0;

  friend bool operator==(const Shortfall&, const Shortfall&) = default;
};
// On those of its GPUs on which there is not enough; empty where admit() would find room.
[[nodiscard]] std::vector<Shortfall> shortfall(const Share& wanted, std::span<const Card> cards, const Reserve& reserve,
                                               std::span<const Committed> committed);

// Whether `earlier` would lack more than it does if `later` were let in now.
[[nodiscard]] bool overtakes(const Share& later, const Share& earlier, std::span<const Card> cards,
                             const Reserve& reserve, std::span<const Committed> committed);

}  // namespace headgate::tenancy
