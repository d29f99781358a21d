// What may be committed of a node. Pure: the whole node in, yes or a reason out.
//
// On each GPU, over all shares that are not overcommitted:
//   memory limits + one context room a share + the driver's reserve  <=  the card's memory
//   guarantees, and ceilings of shares of class latency              <=  100 %
// A share whose limit was lowered beneath what its programs hold has committed what they hold, until they let go of it.
// A share without a memory limit has committed all that one share could have. An overcommitted share is held to its
// limit as the others are, is never more than the card, and is promised nothing; its owner's quotas count it all the
// same. A share of class latency never waits for its turn, so nothing but its ceiling keeps it from what others were
// promised. Who asks for no more than he has may change his share also where more is committed than there is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "tenancy/quota.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

struct Card {
  std::string uuid;
  std::uint64_t memory_total_bytes = 0;  // what NVML calls the card's whole memory
};

// What is never committed. A share's own contexts are charged to the share; the room is for what code that is loaded
// lazily takes past the limit, before the next allocation is refused.
struct Reserve {
  std::uint64_t driver_bytes = 512ull << 20;  // of each card: the driver's own, ECC and page tables, NVML's clients
  std::uint64_t context_room_bytes = 128ull << 20;  // of each card, for each share on it

  friend bool operator==(const Reserve&, const Reserve&) = default;
};

// What a share's programs hold past its limit on a GPU.
struct Excess {
  std::string share, uuid;
  std::uint64_t bytes = 0;
};

struct Books {
  std::span<const Card> cards;
  std::span<const Share> shares;  // that exist; one of the wanted share's name is taken for what it replaces
  std::span<const Quota> quotas;
  Reserve reserve;
  std::span<const Excess> past_limits = {};
};

// Errors: unreachable (no such GPU here), no_capacity (with the sums and the largest that would fit), usage (over 100 %
// of a card, a lease that a quota does not allow), denied (a quota).
[[nodiscard]] Result<void> admit(const Share& wanted, const Books& books);

// What is committed of a card, over all shares that are not overcommitted; `without`: a share that would be replaced.
struct Committed {
  std::uint64_t memory_bytes = 0, guarantee_ppm = 0;  // guarantee_ppm: promised_of() of all
  std::uint64_t shares = 0;

  friend bool operator==(const Committed&, const Committed&) = default;
};
[[nodiscard]] Committed committed_on(const Card& card, const Books& books, std::string_view without = {});
// What a share has committed of a card's memory: its limit, or all that one share could have.
[[nodiscard]] std::uint64_t asked_of(const DeviceShare& device, const Card& card, const Reserve& reserve);
// What a share has committed of a card's time, in ppm: its guarantee, or its ceiling where it is of class latency.
[[nodiscard]] std::uint32_t promised_of(const DeviceShare& device);
// Memory that a further share cannot have: what is committed, the driver's, and rooms for contexts, its own among them.
[[nodiscard]] std::uint64_t kept_beside(const Committed& committed, const Reserve& reserve);

// What a new share could have on a card now; `without`: a share that would be replaced.
struct Room {
  std::uint64_t memory_bytes = 0;
  std::uint32_t guarantee_ppm = 0;

  friend bool operator==(const Room&, const Room&) = default;
};
[[nodiscard]] Room room_on(const Card& card, const Books& books, std::string_view without = {});

}  // namespace headgate::tenancy
