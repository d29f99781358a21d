// What a share that does not fit lacks, and whether admitting another would take from it: admission's arithmetic for
// queued shares. Pure, and without a copy of the books, so that a long queue is scanned fast.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenancy/admission.hpp"

namespace headgate::tenancy {

// Returns one entry for each of books.cards, in their order.
[[nodiscard]] std::vector<Committed> committed_of(const Books& books);
// Adds what the share would commit if it were admitted. An overcommitted share commits nothing.
void commit(const Share& share, std::span<const Card> cards, const Reserve& reserve, std::span<Committed> committed);

struct Shortfall {
  std::string uuid;
  std::string gpu;  // as messages call it
  std::uint64_t memory_bytes = 0;
  std::uint64_t guarantee_ppm = 0;

  friend bool operator==(const Shortfall&, const Shortfall&) = default;
};
// Returns what is missing, for each of its GPUs without enough; empty if admit() would find room.
[[nodiscard]] std::vector<Shortfall> shortfall(const Share& wanted, std::span<const Card> cards, const Reserve& reserve,
                                               std::span<const Committed> committed);

// Returns whether admitting `later` now would increase what `earlier` lacks.
[[nodiscard]] bool overtakes(const Share& later, const Share& earlier, std::span<const Card> cards,
                             const Reserve& reserve, std::span<const Committed> committed);

}  // namespace headgate::tenancy
