// What may be committed of a node. Pure: takes the whole node, returns yes or a reason.
//
// On each GPU, over all shares that are not overcommitted:
//   memory limits + one context room a share + the driver's reserve  <=  the card's memory
//   guarantees, and ceilings of shares of class latency              <=  100 %
// If a limit was lowered below what the programs hold, what they hold counts until they free it. A share without a
// memory limit counts as all that one share could have. An overcommitted share keeps to its limit, never has more than
// the card, and is promised nothing; its owner's quotas still count it. A share of class latency never waits for its
// turn, so only its ceiling protects what other shares were promised. A change that asks for no more than before is
// accepted even if more is committed than there is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tenancy/quota.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

struct Card {
  std::string uuid;
  std::uint64_t memory_total_bytes = 0;  // what NVML calls the card's whole memory
  std::string name = {};                 // in messages: "GPU 0 (L40S)"; empty: its UUID

  [[nodiscard]] const std::string& called() const { return name.empty() ? uuid : name; }
};

// Memory that is never committed. A share's own contexts are charged to the share. The context room covers lazily
// loaded code, which may pass the limit before the next allocation is refused.
struct Reserve {
  std::uint64_t driver_bytes = 512ull << 20;        // per card: the driver, ECC and page tables, NVML's clients
  std::uint64_t context_room_bytes = 128ull << 20;  // per card and share

  friend bool operator==(const Reserve&, const Reserve&) = default;
};

// What a share's programs hold above its limit on a GPU.
struct Excess {
  std::string share, uuid;
  std::uint64_t bytes = 0;
};

struct Books {
  std::span<const Card> cards;
  std::span<const Share> shares;  // existing shares; one with the wanted share's name is what that one replaces
  std::span<const Quota> quotas;
  Reserve reserve;
  std::span<const Excess> past_limits = {};
};

// Checks whether a share fits. Errors: unreachable (no such GPU here), no_capacity (with the sums and the largest that
// would fit), usage (over 100 % of a card, a lease that a quota does not allow), denied (a quota).
[[nodiscard]] Result<void> admit(const Share& wanted, const Books& books);

// What is committed of a card by all shares that are not overcommitted; `without`: a share that would be replaced.
struct Committed {
  std::uint64_t memory_bytes = 0, guarantee_ppm = 0;  // guarantee_ppm: sum of promised_of()
  std::uint64_t shares = 0;

  friend bool operator==(const Committed&, const Committed&) = default;
};
[[nodiscard]] Committed committed_on(const Card& card, const Books& books, std::string_view without = {});
// Returns how much of a card's memory a share commits: its limit, or all that one share could have.
[[nodiscard]] std::uint64_t asked_of(const DeviceShare& device, const Card& card, const Reserve& reserve);
// Returns how much of a card's time a share commits, in ppm: its guarantee, or its ceiling if it is of class latency.
[[nodiscard]] std::uint32_t promised_of(const DeviceShare& device);
// Returns memory that a new share cannot have: what is committed, the driver's, and context rooms, its own included.
[[nodiscard]] std::uint64_t kept_beside(const Committed& committed, const Reserve& reserve);

// What a new share could have on a card now; `without`: a share that would be replaced.
struct Room {
  std::uint64_t memory_bytes = 0;
  std::uint32_t guarantee_ppm = 0;

  friend bool operator==(const Room&, const Room&) = default;
};
[[nodiscard]] Room room_on(const Card& card, const Books& books, std::string_view without = {});

// For queued shares: what one that does not fit lacks, and whether admitting another would take from it. Without a copy
// of the books, so that a long queue is scanned fast.

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
