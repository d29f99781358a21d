// Whether the daemon can start on this machine with a configuration.
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

// Whether this machine has what the configuration names.
[[nodiscard]] Result<void> is_sound(const config::Config& config, const Options& options);

// NVML, as the configuration names it or as it is usual.
[[nodiscard]] std::string library_of(const config::Config& config);

// What the configuration says and asks of this machine (its group, token file and directories, the driver's library or
// the simulator), without a start; on stderr, of which GPUs nothing could be committed, where their driver answers.
// Errors: as of the start.
[[nodiscard]] Result<void> check(const Options& options);

}  // namespace headgate::daemon
