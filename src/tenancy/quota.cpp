#include "tenancy/quota.hpp"

#include <algorithm>

namespace headgate::tenancy {
namespace {

template <typename T>
void take(std::optional<T>& field, const QuotaChange::Said<T>& said) {
  if (said) field = *said;
}

template <typename T>
void fill(std::optional<T>& field, const std::optional<T>& from) {
  if (!field) field = from;
}

}  // namespace

bool bounds_nothing(const Quota& quota) {
  return !quota.memory_bytes && !quota.compute_ppm && !quota.shares && !quota.ttl && !quota.weight &&
         !quota.highest_class;
}

bool says_nothing(const QuotaChange& change) {
  return !change.memory_bytes && !change.compute_ppm && !change.shares && !change.ttl && !change.weight &&
         !change.highest_class;
}

Quota changed(Quota before, const QuotaChange& change) {
  before.subject = change.subject;
  before.id = change.id;
  take(before.memory_bytes, change.memory_bytes);
  take(before.compute_ppm, change.compute_ppm);
  take(before.shares, change.shares);
  take(before.ttl, change.ttl);
  take(before.weight, change.weight);
  take(before.highest_class, change.highest_class);
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
    fill(of_owner.memory_bytes, quota.memory_bytes);
    fill(of_owner.compute_ppm, quota.compute_ppm);
    fill(of_owner.shares, quota.shares);
    fill(of_owner.ttl, quota.ttl);
    fill(of_owner.weight, quota.weight);
    fill(of_owner.highest_class, quota.highest_class);
  }
  if (!bounds_nothing(of_owner)) all.insert(all.begin(), of_owner);
  return all;
}

}  // namespace headgate::tenancy
