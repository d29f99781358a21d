// What a user's or a group's shares may come to, all together, and how much of a GPU's turns one of them may ask for.
// Pure.
//
// A user's own quota goes before everyone's limit by limit: what it does not name, everyone's bounds. Everyone's does
// not hold for root, who made it. A group's quota holds beside both.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenancy/share.hpp"

namespace headgate::tenancy {

// Limits left out bound nothing.
struct Quota {
  enum class Subject : std::uint32_t { user = 0, group = 1, every_user = 2 };
  Subject subject = Subject::user;
  std::uint32_t id = 0;                       // uid or gid; 0 for every_user
  std::optional<std::uint64_t> memory_bytes;  // over all GPUs; a share without a limit counts the whole card
  std::optional<std::uint64_t> compute_ppm;   // ceilings over all GPUs: 2'000'000 is two whole GPUs
  std::optional<std::uint32_t> shares;        // how many
  std::optional<std::chrono::seconds> ttl;    // each share must end by itself, at most so late
  // Of each share, on each GPU. Where no quota says them, who is no administrator has kDefaultWeight and kDefaultClass.
  std::optional<std::uint32_t> weight;  // 1..1000
  std::optional<Class> highest_class;

  friend bool operator==(const Quota&, const Quota&) = default;
};

// What a user may ask for where no quota says more: a share has its part beside the others', and waits for its turn.
inline constexpr std::uint32_t kDefaultWeight = 100;
inline constexpr Class kDefaultClass = Class::normal;

[[nodiscard]] bool bounds_nothing(const Quota& quota);

// What somebody says of a quota. Unset: not a word. Set to nothing: that limit is taken back.
struct QuotaChange {
  template <typename T>
  using Said = std::optional<std::optional<T>>;

  Quota::Subject subject = Quota::Subject::user;
  std::uint32_t id = 0;
  Said<std::uint64_t> memory_bytes, compute_ppm;
  Said<std::uint32_t> shares, weight;
  Said<std::chrono::seconds> ttl;
  Said<Class> highest_class;
};
[[nodiscard]] bool says_nothing(const QuotaChange& change);
[[nodiscard]] Quota changed(Quota before, const QuotaChange& change);

// The quotas that hold for a share: of its owner one, if it bounds anything, and those of its owner's groups.
[[nodiscard]] std::vector<Quota> holding(const Share& share, std::span<const Quota> quotas);

}  // namespace headgate::tenancy
