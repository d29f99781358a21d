// Keeps leases across daemon restarts in one file, which is replaced atomically.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/lease.hpp"

namespace headgate::power {

// Returns no leases if the file is missing. Errors: those of reading; failed if its content is damaged.
[[nodiscard]] Result<std::vector<Lease>> load_leases(const std::string& path);

// Returns once the file is on disk. Errors: denied, no_capacity, failed; then the former file stays.
[[nodiscard]] Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases);

}  // namespace headgate::power
