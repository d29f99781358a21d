#include "tenancy/quota.hpp"

#include <algorithm>

namespace headgate::tenancy {
namespace {

// Calls visit(a.x, b.x) for each limit x.
template <typename A, typename B, typename Visit>
void each_limit(A& a, B& b, Visit&& visit) {
  visit(a.memory_bytes, b.memory_bytes);
  visit(a.compute_ppm, b.compute_ppm);
  visit(a.shares, b.shares);
  visit(a.ttl, b.ttl);
  visit(a.weight, b.weight);
  visit(a.highest_class, b.highest_class);
}

template <typename Limits>
bool has_none(const Limits& limits) {
  bool none = true;
  each_limit(limits, limits, [&](const auto& limit, const auto&) { none = none && !limit; });
  return none;
}

}  // namespace

bool bounds_nothing(const Quota& quota) { return has_none(quota); }

bool says_nothing(const QuotaChange& change) { return has_none(change); }

Quota changed(Quota before, const QuotaChange& change) {
  before.subject = change.subject;
  before.id = change.id;
  each_limit(before, change, [](auto& limit, const auto& said) {
    if (said) limit = *said;
  });
  return before;
}

std::vector<Quota> holding(const Share& share, std::span<const Quota> quotas) {
  constexpr std::uint32_t kRoot = 0;
  Quota of_owner;
  std::vector<Quota> all;
  for (const Quota& quota : quotas) {
    if (quota.subject == Quota::Subject::user && quota.id == share.owner_uid) of_owner = quota;
    if (quota.subject == Quota::Subject::group &&
        std::ranges::find(share.owner_gids, quota.id) != share.owner_gids.end())
      all.push_back(quota);
  }
  of_owner.id = share.owner_uid;
  for (const Quota& quota : quotas) {
    if (quota.subject != Quota::Subject::every_user || share.owner_uid == kRoot) continue;
    each_limit(of_owner, quota, [](auto& limit, const auto& of_all) {
      if (!limit) limit = of_all;
    });
  }
  if (!bounds_nothing(of_owner)) all.insert(all.begin(), of_owner);
  return all;
}

}  // namespace headgate::tenancy
