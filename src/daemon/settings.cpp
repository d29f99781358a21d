#include "daemon/settings.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "base/unique_fd.hpp"
#include "base/units.hpp"
#include "daemon/cdi_files.hpp"
#include "daemon/collector_files.hpp"
#include "daemon/places.hpp"
#include "daemon/power_control.hpp"
#include "daemon/zeusd_listener.hpp"
#include "guest/grant/size.hpp"
#include "identity/peer.hpp"
#include "identity/subordinate.hpp"
#include "install/source.hpp"
#include "nvml/library.hpp"
#include "observe/audit.hpp"
#include "observe/gpus.hpp"

namespace headgate::daemon {

Result<config::Config> read_configuration(const Options& options) {
  const std::string file = options.config_path.empty() ? config::kDefaultFile : options.config_path;
  const config::Reading reading = config::read(file, !options.config_path.empty());
  if (reading.errors.empty()) return reading.config;
  Error first = reading.errors.front();
  for (std::size_t i = 1; i < reading.errors.size(); ++i) {
    // Each mistake is followed by what is accepted; the last one's stays the hint.
    first.message += (first.hint.empty() ? "" : "\n  " + first.hint) + "\nheadgated: " + reading.errors[i].message;
    first.hint = reading.errors[i].hint;
  }
  return std::unexpected(first);
}

Result<std::optional<gid_t>> control_group(const config::Config& config) {
  const std::string& name = config["node.group"].value;
  // Without rights over groups the socket stays our own.
  if (name.empty() || ::geteuid() != 0) return std::nullopt;
  if (const ::group* entry = ::getgrnam(name.c_str())) return entry->gr_gid;
  if (config["node.group"].origin == "default") return std::nullopt;
  return fail(ErrorCode::usage,
              config["node.group"].origin + ": node.group = '" + name + "' is no group of this machine",
              "make it: groupadd --system " + name);
}

bool for_all(const config::Config& config) { return config["node.callers"].value == "all"; }

Result<std::optional<std::string>> token(const config::Config& config) {
  const config::Setting& file = config["node.token_file"];
  if (file.value.empty()) return std::nullopt;
  // Read regular files only: a pipe may never deliver anything, and some devices have no end.
  const UniqueFd opened(::open(file.value.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts{};
  std::array<char, 4096> bytes;
  const bool regular = opened && ::fstat(opened.get(), &facts) == 0 && S_ISREG(facts.st_mode);
  const ssize_t length = regular ? ::read(opened.get(), bytes.data(), bytes.size()) : -1;
  std::string_view text(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length)));
  text = text.substr(0, text.find('\n'));
  if (text.size() < 16 || text.size() == bytes.size())
    return fail(ErrorCode::usage, file.origin + ": node.token_file = '" + file.value + "' holds no token",
                "a readable file, no pipe, whose first line is 16 to 4095 characters: openssl rand -hex 32");
  if ((facts.st_mode & 077) != 0)
    return fail(ErrorCode::denied, file.value + " can be read by others", "chmod 600 " + file.value);
  return std::string(text);
}

// "127.0.0.1:9471", "[::1]:9471".
Result<config::ListenAddress> listen_address_from(const std::string& said, const std::string& text, bool has_token) {
  const auto address = config::parse_listen_address(text);
  if (!address)
    return fail(ErrorCode::usage, said + " '" + text + "' is no address", "accepted: 127.0.0.1:9471, [::1]:9471");
  TRY(config::may_listen(said, text, has_token));
  return *address;
}

std::string url_of(const config::ListenAddress& address, std::uint16_t port) {
  const std::string host = address.host.contains(':') ? "[" + address.host + "]" : address.host;
  return "http://" + host + ":" + std::to_string(port);
}

bool is_simulator(const std::string& library) { return library.ends_with("/sim/libnvidia-ml.so.1"); }

Result<void> can_see_programs(const config::Config& config, const std::string& library) {
  const bool asked = config["node.pid_namespace"].value == "host";
  if (!asked || is_simulator(library) || identity::in_host_pid_namespace("/proc")) return {};
  return fail(ErrorCode::unsupported,
              "headgated runs in a container's pid namespace, and could neither name nor hold the programs outside it",
              "run it on the host, or its container with --pid=host; where the GPU is this container's alone: "
              "node.pid_namespace = \"own\" in the configuration");
}

tenancy::Reserve reserve_of(const config::Config& config) {
  tenancy::Reserve reserve;
  if (const auto& said = config["node.reserve"]; !said.value.empty())
    reserve.driver_bytes = grant::parse_memory(said.value).value.bytes;
  return reserve;
}

std::vector<Unsellable> unsellable(const config::Config& config, const std::vector<snapshot::Gpu>& gpus) {
  const tenancy::Reserve reserve = reserve_of(config);
  std::vector<Unsellable> all;
  for (const auto& gpu : gpus) {
    if (gpu.uuid.empty()) continue;  // it does not answer, which is reported separately
    const tenancy::Card card{.uuid = gpu.uuid, .memory_total_bytes = gpu.memory_total_bytes};
    if (tenancy::room_on(card, {.cards = {}, .shares = {}, .quotas = {}, .reserve = reserve}).memory_bytes > 0)
      continue;
    const auto& said = config["node.reserve"];
    all.push_back({gpu.uuid, "no memory of GPU " + gpu.uuid.substr(0, 12) + " can be committed: it has " +
                                 bytes_text(gpu.memory_total_bytes) + ", and node.reserve = '" + said.value + "' (" +
                                 said.origin + ") keeps as much or more; give a smaller one, such as 512MiB"});
  }
  return all;
}

std::vector<std::string> list_from(const std::string& with_commas) {
  std::vector<std::string> list;
  std::istringstream text(with_commas);
  for (std::string name; std::getline(text, name, ',');) list.push_back(name);
  return list;
}

std::vector<std::string> exempt_programs(const config::Config& config) {
  std::vector<std::string> programs = observe::AuditRules{}.exempt;
  for (auto& name : list_from(config["audit.exempt"].value)) programs.push_back(std::move(name));
  return programs;
}

http::ServerLimits server_limits(const config::Config& config) {
  http::ServerLimits limits;
  limits.connections = config.number("node.connections");
  limits.connections_per_uid = config.number("node.connections_per_user");
  limits.names = list_from(config["node.names"].value);
  limits.user_of = [](const http::Peer& peer) {
    return identity::answerable_user("/proc", static_cast<std::uint32_t>(peer.pid), peer.uid);
  };
  return limits;
}

Result<std::optional<config::ListenAddress>> tcp_address(const config::Config& config, const Options& options,
                                                         bool has_token) {
  if (!options.listen.empty()) return TRY(listen_address_from("--listen", options.listen, has_token));
  const config::Setting& listen = config["node.listen"];
  if (listen.value.empty()) return std::nullopt;
  return TRY(listen_address_from(listen.origin + ": node.listen =", listen.value, has_token));
}

Result<void> is_sound(const config::Config& config, const Options& options) {
  const auto secret = TRY(token(config));
  TRY(tcp_address(config, options, secret.has_value()));
  TRY(collector_files_of(config));
  TRY(CdiFiles::directory_of(config, options));
  TRY(control_group(config));
  TRY(PowerControl::check(config));
  return ZeusdListener::check(config);
}

std::string library_of(const config::Config& config) {
  const std::string& named = config["node.nvml"].value;
  return named.empty() ? install::Source{}.library : named;
}

Result<void> check(const Options& options) {
  const config::Config config = TRY(read_configuration(options));
  TRY(is_sound(config, options));
  TRY(check_places(options.socket, options.state));
  TRY(install::check_source(options.simulate, config["sim.profile"].value));
  if (options.simulate) return {};
  const auto driver = TRY(nvml::Library::open(library_of(config)));
  TRY(can_see_programs(config, driver.path()));
  const auto snapshot = TRY(observe::read_driver(driver, 0));
  for (const auto& card : unsellable(config, snapshot.gpus)) std::fprintf(stderr, "headgated: %s\n", card.text.c_str());
  return {};
}

}  // namespace headgate::daemon
