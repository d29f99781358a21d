// Interprets the configuration for the daemon: which users may reach it, where, and with what secret. Checks whether
// the daemon can start on this machine with it.
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

// Reads the file of the options, or the usual one, which may be missing. Reports all its mistakes in one error.
Result<config::Config> read_configuration(const Options& options);

// Returns the group that may use the control socket. None if the default group does not exist, or we have no right to
// give it the socket.
Result<std::optional<gid_t>> control_group(const config::Config& config);

// Returns whether users outside that group may ask, for what is theirs.
[[nodiscard]] bool for_all(const config::Config& config);

// Returns what clients over TCP have to show; none if no file is named. Refuses a file that others can read.
Result<std::optional<std::string>> token(const config::Config& config);

// Parses "127.0.0.1:9471" or "[::1]:9471". Errors: usage; an address other than loopback is refused without a token.
// `said`: the origin of the text, for errors: "--listen", "/etc/headgate/config.toml:3: node.listen =".
Result<config::ListenAddress> listen_address_from(const std::string& said, const std::string& text, bool has_token);

// Returns "http://127.0.0.1:9471", with the port that was bound.
[[nodiscard]] std::string url_of(const config::ListenAddress& address, std::uint16_t port);

// Returns whether the driver's library is the simulator's.
[[nodiscard]] bool is_simulator(const std::string& library);
// Checks whether the pids that the library reports are known here: in a container's pid namespace they are not. Errors:
// unsupported.
[[nodiscard]] Result<void> can_see_programs(const config::Config& config, const std::string& library);

// Returns what is never committed of each GPU.
[[nodiscard]] tenancy::Reserve reserve_of(const config::Config& config);

struct Unsellable {
  std::string uuid, text;
};
// Returns the GPUs of which the reserve leaves nothing to commit, and what to do about each.
[[nodiscard]] std::vector<Unsellable> unsellable(const config::Config& config, const std::vector<snapshot::Gpu>& gpus);

// Returns how many connections the daemon's servers take at once, in all and from one user. A caller over a Unix socket
// counts as identity::answerable_user() of its uid.
[[nodiscard]] http::ServerLimits server_limits(const config::Config& config);

std::vector<std::string> list_from(const std::string& with_commas);

// Returns the programs that are exempt by default, and those of audit.exempt.
std::vector<std::string> exempt_programs(const config::Config& config);

// Where to listen over TCP, by command line or configuration; none: nowhere. Errors: as of listen_address_from().
[[nodiscard]] Result<std::optional<config::ListenAddress>> tcp_address(const config::Config& config,
                                                                       const Options& options, bool has_token);

// Checks whether this machine has what the configuration names.
[[nodiscard]] Result<void> is_sound(const config::Config& config, const Options& options);

// Returns NVML's file: the one that the configuration names, or the usual one.
[[nodiscard]] std::string library_of(const config::Config& config);

// Checks whether the daemon would start here, without starting it: the configuration, and what it needs of this machine
// (group, token file, directories, the driver's library or the simulator). If the driver answers, prints on stderr the
// GPUs that have no memory to commit. Errors: those of a start.
[[nodiscard]] Result<void> check(const Options& options);

}  // namespace headgate::daemon
