// Which shares may be on one GPU where MPS makes its compute mode exclusive. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// In mode exclusive process a GPU has one MPS server, for one user: programs that are no clients of it fail, and so do
// another owner's. Errors: conflict, with the share that is in the way.
[[nodiscard]] Result<void> fits_beside(const tenancy::Share& wanted, const std::vector<tenancy::Share>& others);

}  // namespace headgate::node
