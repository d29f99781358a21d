// Finds promises of GPU time that a change would void. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schedule/terms.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

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
