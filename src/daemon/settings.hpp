// What the configuration's words mean to the daemon: who may reach it, where, and with what secret.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "config/listen_address.hpp"
#include "daemon/options.hpp"
#include "http/server.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/admission.hpp"

namespace headgate::daemon {

// The file of the options, or the usual one, which may be missing. All its mistakes in one error.
Result<config::Config> read_configuration(const Options& options);

// The group that may use the control socket. None where there is no such group by default, or we have no right to give
// it one.
Result<std::optional<gid_t>> control_group(const config::Config& config);

// Whether users outside that group may ask, for what is theirs.
[[nodiscard]] bool for_all(const config::Config& config);

// What clients over TCP have to show; none where no file is named. A file that others can read is refused.
Result<std::optional<std::string>> token(const config::Config& config);

// "127.0.0.1:9471", "[::1]:9471". Beyond loopback only with a token.
// `said`: by whom, for errors: "--listen", "/etc/headgate/config.toml:3: node.listen =".
Result<config::ListenAddress> listen_address_from(const std::string& said, const std::string& text, bool has_token);

// Whether the driver's library is the simulator's.
[[nodiscard]] bool is_simulator(const std::string& library);
// Whether the numbers by which that library names programs are known here: in a container's pid namespace they are not.
// Errors: unsupported.
[[nodiscard]] Result<void> can_see_programs(const config::Config& config, const std::string& library);

// What is never committed of each GPU.
[[nodiscard]] tenancy::Reserve reserve_of(const config::Config& config);

struct Unsellable {
  std::string uuid, text;
};
// The GPUs of which that leaves nothing to commit, and what to do about each.
[[nodiscard]] std::vector<Unsellable> unsellable(const config::Config& config, const std::vector<snapshot::Gpu>& gpus);

// Returns how many connections the daemon's servers take at once, in all and from one user. A caller over a Unix socket
// counts as identity::answerable_user() of its uid.
[[nodiscard]] http::ServerLimits server_limits(const config::Config& config);

std::vector<std::string> list_from(const std::string& with_commas);

// Those that are so by default, and those of audit.exempt.
std::vector<std::string> exempt_programs(const config::Config& config);

}  // namespace headgate::daemon
