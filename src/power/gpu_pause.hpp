// Prepares a GPU reset: persistence mode is given up for a while, and all settings that the reset loses are saved
// first.
#pragma once

#include <string>

#include "power/lease.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

// Returns a lease of the daemon that turns off a GPU's persistence mode ("all": every GPU's) and saves all settings,
// which a reset clears. Errors: not_found, and those of reading the persistence mode.
[[nodiscard]] Result<Lease> pause_of(SettingsIo& io, const std::string& gpu);

}  // namespace headgate::power
