// What a reset of a GPU needs: its persistence mode given up for a while, and everything that the reset forgets written
// down before.
#pragma once

#include <string>

#include "power/lease.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

// A lease of the daemon's own that gives up the persistence mode of the GPU ("all": of all), with all settings that the
// GPUs have now: a GPU that is reset forgets all of them. Errors: not_found, and those of reading the persistence mode.
[[nodiscard]] Result<Lease> pause_of(SettingsIo& io, const std::string& gpu);

}  // namespace headgate::power
