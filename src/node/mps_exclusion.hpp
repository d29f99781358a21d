// Decides which shares may be on one GPU if MPS makes its compute mode exclusive. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// In mode exclusive process a GPU has one MPS server, for one user (for all on the GPUs in `for_all`): programs that are
// not its clients fail, and so do other owners' programs. Errors: conflict, naming the share that is in the way.
[[nodiscard]] Result<void> fits_beside(const tenancy::Share& wanted, const std::vector<tenancy::Share>& others,
                                       const std::set<std::string>& for_all = {});

}  // namespace headgate::node
