// Where leases are kept over the daemon's end: one file, whole at every moment.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/lease.hpp"

namespace headgate::power {

// A missing file holds no leases. Errors: of reading, and failed where its content is damaged.
[[nodiscard]] Result<std::vector<Lease>> load_leases(const std::string& path);

// On disk when it returns. Errors: denied, no_capacity, failed; then the former file stays.
[[nodiscard]] Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases);

}  // namespace headgate::power
