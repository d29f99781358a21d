// Describes shares and quotas for events. Pure, except for names of users and groups.
#pragma once

#include <string>

#include "tenancy/quota.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// Returns "8.0 GiB, 50 % promised, at most 80 % on GPU-9c2f..."; for an overcommitted share, which is promised nothing,
// "overcommitted" instead.
[[nodiscard]] std::string describe(const tenancy::Share& share);

// Returns what has changed, by the names of the options: "weight 100 -> 200, ttl none -> 8h". Empty: nothing.
[[nodiscard]] std::string describe_changes(const tenancy::Share& before, const tenancy::Share& after);
[[nodiscard]] std::string describe_changes(const tenancy::Quota& before, const tenancy::Quota& after);

}  // namespace headgate::node
