// What a share that does not fit lacks, and whether another one would take of it: the arithmetic of admission, for those who wait.
// Pure, and without a copy of the books, so that a long line is looked through in little time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenancy/admission.hpp"

namespace headgate::tenancy {

// Of each of books.cards, in their order.
[[nodiscard]] std::vector<Sold> sold_of(const Books& books);
// Adds what the share would be sold, had it been let in. An over-sold share is sold nothing.
void sell(const Share& share, std::span<const Card> cards, const Reserve& reserve, std::span<Sold> sold);

struct Shortfall {
  std::string uuid;
  std::uint64_t memory_bytes = 0;
  std::uint64_t guarantee_ppm = 0;

  friend bool operator==(const Shortfall&, const Shortfall&) = default;
};
// On those of its GPUs on which there is not enough; empty where admit() would find room.
[[nodiscard]] std::vector<Shortfall> shortfall(const Share& wanted, std::span<const Card> cards, const Reserve& reserve,
                                               std::span<const Sold> sold);

// Whether `earlier` would lack more than it does if `later` were let in now.
[[nodiscard]] bool overtakes(const Share& later, const Share& earlier, std::span<const Card> cards,
                             const Reserve& reserve, std::span<const Sold> sold);

}  // namespace headgate::tenancy
