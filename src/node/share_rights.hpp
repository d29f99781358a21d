// Which shares a caller may have and change. Checks only; nothing here looks for room on the GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"
#include "node/share_request.hpp"
#include "schedule/terms.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// Returns the share if the caller may change it. Errors: denied; not_found, also for a share that the caller may not
// see.
[[nodiscard]] Result<tenancy::LiveShare*> changeable(ManagedShares& managed, const std::string& name,
                                                     const Caller& caller);
// Errors: conflict.
[[nodiscard]] Result<void> check_name_is_free(const ManagedShares& managed, const std::string& name,
                                              const Caller& caller);
// Checks whether the caller may have one more share beside those that it has and the `waiting` that it asked for.
// Errors: denied; no_capacity.
[[nodiscard]] Result<void> may_have_one_more(const ManagedShares& managed, std::size_t waiting, const Caller& caller);
// `before`: null for a new share. Errors: denied.
[[nodiscard]] Result<void> may_overcommit(const tenancy::Share* before, const tenancy::Share& wanted,
                                          const Caller& caller);
// Checks weight and class of a non-administrator if no quota sets them. `before`: null for a new share. Errors: denied.
[[nodiscard]] Result<void> may_have_rank(const tenancy::Share* before, const tenancy::Share& wanted,
                                         const std::vector<tenancy::Quota>& quotas, const Caller& caller);
// Limits what a new share's request does not name to what quotas allow.
void fit_to_quotas(const ShareRequest& order, const std::vector<tenancy::Quota>& quotas, tenancy::Share& share);
// Returns the caller's groups, by which group quotas count; sorted. Errors: of the directory, if there is such a quota.
[[nodiscard]] Result<std::vector<std::uint32_t>> all_groups_of(const Caller& caller, const UserDirectory& directory,
                                                               const std::vector<tenancy::Quota>& quotas);

// Decides which shares may be on one GPU if MPS makes its compute mode exclusive. In that mode a GPU has one MPS
// server, for one user (for all on the GPUs in `for_all`): programs that are not its clients fail, and so do other
// owners' programs. Errors: conflict, naming the share that is in the way.
[[nodiscard]] Result<void> fits_beside(const tenancy::Share& wanted, const std::vector<tenancy::Share>& others,
                                       const std::set<std::string>& for_all = {});

// A promise of GPU time that a change would void.
struct VoidPromise {
  std::string share, uuid;
  std::uint32_t guarantee_ppm = 0;

  friend bool operator==(const VoidPromise&, const VoidPromise&) = default;
};

// Returns promises on the GPU that the policy `before` keeps and `after` does not: all under off, those of class
// best-effort under priority. None if one share alone has the GPU.
[[nodiscard]] std::vector<VoidPromise> voided_by_policy(std::span<const tenancy::Share> shares, const std::string& uuid,
                                                        schedule::Policy before, schedule::Policy after);

// Returns promises that `wanted` would have of class best-effort on GPUs with the policy priority, and that `before`
// (null: a new share) does not have so.
using PolicyOf = std::function<schedule::Policy(const std::string& uuid)>;
[[nodiscard]] std::vector<VoidPromise> voided_by_class(const tenancy::Share* before, const tenancy::Share& wanted,
                                                       const PolicyOf& policy);

// Errors: conflict, with `what` and the list of promises, if there are any and the caller has not accepted that.
[[nodiscard]] Result<void> need_consent(const std::string& what, const std::vector<VoidPromise>& promises,
                                        bool accepted);

}  // namespace headgate::node
