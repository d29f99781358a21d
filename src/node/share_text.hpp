// Shares and quotas in the words of events. Pure, but for names of users and groups.
#pragma once

#include <string>

#include "tenancy/quota.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// "8.0 GiB, 50 % promised, at most 80 % on GPU-9c2f..."; of an overcommitted share, which is promised nothing,
// "overcommitted" in its place.
[[nodiscard]] std::string describe(const tenancy::Share& share);

// What a change has changed, by the names of the options that say it: "weight 100 -> 200, ttl none -> 8h". Empty:
// nothing.
[[nodiscard]] std::string describe_changes(const tenancy::Share& before, const tenancy::Share& after);
[[nodiscard]] std::string describe_changes(const tenancy::Quota& before, const tenancy::Quota& after);

}  // namespace headgate::node
