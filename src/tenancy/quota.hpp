// Limits on what all shares of a user or a group together may amount to, and on each share's weight and class. Pure.
//
// A user's own quota replaces every_user's limit by limit: every_user's limits apply where it has none. They do not
// apply to root, which sets them. A group's quota applies beside both.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenancy/share.hpp"

namespace headgate::tenancy {

// An absent limit bounds nothing.
struct Quota {
  enum class Subject : std::uint32_t { user = 0, group = 1, every_user = 2 };
  Subject subject = Subject::user;
  std::uint32_t id = 0;                       // uid or gid; 0 for every_user
  std::optional<std::uint64_t> memory_bytes;  // over all GPUs; a share without a limit counts the whole card
  std::optional<std::uint64_t> compute_ppm;   // ceilings over all GPUs: 2'000'000 is two whole GPUs
  std::optional<std::uint32_t> shares;        // how many
  std::optional<std::chrono::seconds> ttl;    // each share must have a time to live, at most this
  // Per share and GPU. If no quota sets them, a non-administrator has kDefaultWeight and kDefaultClass.
  std::optional<std::uint32_t> weight;  // 1..1000
  std::optional<Class> highest_class;

  friend bool operator==(const Quota&, const Quota&) = default;
};

// What a user may ask for if no quota allows more: an equal weight, and a class that waits for its turn.
inline constexpr std::uint32_t kDefaultWeight = 100;
inline constexpr Class kDefaultClass = Class::normal;

[[nodiscard]] bool bounds_nothing(const Quota& quota);

// A requested change of a quota. Unset: the limit stays. Set to nothing: the limit is removed.
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

// Returns the quotas that apply to a share: its owner's, if it bounds anything, and those of its owner's groups.
[[nodiscard]] std::vector<Quota> holding(const Share& share, std::span<const Quota> quotas);

}  // namespace headgate::tenancy
