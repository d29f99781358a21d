// Checks whether the daemon can start on this machine with a configuration.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "config/config.hpp"
#include "daemon/options.hpp"
#include "daemon/settings.hpp"

namespace headgate::daemon {

// Where to listen over TCP, by command line or configuration; none: nowhere. Errors: as of listen_address_from().
[[nodiscard]] Result<std::optional<config::ListenAddress>> tcp_address(const config::Config& config,
                                                                       const Options& options, bool has_token);

// Checks whether this machine has what the configuration names.
[[nodiscard]] Result<void> is_sound(const config::Config& config, const Options& options);

// Returns NVML's file: the one that the configuration names, or the usual one.
[[nodiscard]] std::string library_of(const config::Config& config);

// Checks, without a start, what the configuration says and needs of this machine (its group, token file and
// directories, the driver's library or the simulator). Names on stderr the GPUs of which nothing could be committed, if
// their driver answers. Errors: as of the start.
[[nodiscard]] Result<void> check(const Options& options);

}  // namespace headgate::daemon
