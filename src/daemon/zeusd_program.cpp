#include "daemon/zeusd_program.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "api/zeusd.hpp"
#include "base/now.hpp"
#include "base/service_notify.hpp"
#include "base/unique_fd.hpp"
#include "base/version.hpp"
#include "config/command_overrides.hpp"
#include "config/listen_address.hpp"
#include "daemon/power_reports.hpp"
#include "daemon/settings.hpp"
#include "http/server.hpp"
#include "install/source.hpp"
#include "power/nvml_manager.hpp"
#include "power/overriding_manager.hpp"

namespace headgate::daemon {
namespace {

void say_zeusd(const std::string& text) { std::fprintf(stderr, "zeusd: %s\n", text.c_str()); }

bool has(const std::vector<power::ApiGroup>& groups, power::ApiGroup group) {
  return std::ranges::find(groups, group) != groups.end();
}

// Only root can set GPUs through the driver and read CPU energy: a daemon that could do neither must not seem to work.
Result<void> check_privilege(const ZeusdServeOptions& options) {
  if (::geteuid() == 0 || options.simulate) return {};
  if (has(options.groups, power::ApiGroup::gpu_control) && options.overrides_path.empty())
    return fail(ErrorCode::denied, "zeusd: API group gpu-control needs root",
                "run as root, or leave it out: --enable gpu-read");
  if (has(options.groups, power::ApiGroup::cpu_read))
    return fail(ErrorCode::denied, "zeusd: API group cpu-read needs root",
                "run as root, or leave it out: --enable gpu-read");
  return {};
}

Result<std::vector<std::unique_ptr<power::GpuManager>>> open_gpus(const ZeusdServeOptions& options) {
  const install::Source source = TRY(install::source_for(options.simulate, "h200"));
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  auto driver = power::NvmlSession::open(source.library);
  if (driver) return power::NvmlSession::managers(*driver);
  if (options.explicit_backend || options.simulate) return std::unexpected(driver.error());
  say_zeusd("no GPUs: " + driver.error().message);
  return std::vector<std::unique_ptr<power::GpuManager>>{};
}

Result<void> override_setters(const std::string& path, std::vector<std::unique_ptr<power::GpuManager>>& gpus) {
  if (path.empty()) return {};
  const auto loaded = TRY(config::load_command_overrides(path));
  if (!loaded.warning.empty()) say_zeusd("warning: " + loaded.warning);
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu)
    gpus[gpu] = power::overriding_manager(std::move(gpus[gpu]), gpu, loaded.overrides);
  return {};
}

Result<void> listen_unix(http::Server& server, const ZeusdServeOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.socket_path).parent_path(), error);
  if (error) return fail(ErrorCode::failed, "making the directory of " + options.socket_path + ": " + error.message());
  if (auto bound = server.listen(
          http::UnixListener{.path = options.socket_path, .mode = options.socket_mode, .group = options.socket_gid});
      !bound)
    return bound;
  if (options.socket_uid && ::chown(options.socket_path.c_str(), *options.socket_uid, static_cast<gid_t>(-1)) != 0)
    return fail_errno("giving " + options.socket_path + " to uid " + std::to_string(*options.socket_uid), errno);
  return {};
}

Result<std::string> listen(http::Server& server, const ZeusdServeOptions& options) {
  if (!options.tcp) {
    TRY(listen_unix(server, options));
    return options.socket_path;
  }
  if (options.key_path.empty())
    say_zeusd("warning: TCP without --signing-key-path: every client that reaches it can set the GPUs");
  const auto address = config::parse_listen_address(options.tcp_address);
  return url_of(*address, TRY(server.listen(address->host, address->port)));
}

std::vector<std::string> names_of(const ZeusdServeOptions& options) {
  std::vector<std::string> names = options.names;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) names.emplace_back(host.data());
  return names;
}

std::chrono::nanoseconds period_of(std::uint32_t hz) { return std::chrono::nanoseconds(1'000'000'000 / hz); }

// Serves until SIGTERM, SIGINT or SIGQUIT. Errors: of the start; each names what is wrong and what is accepted.
Result<void> serve_zeusd(const ZeusdServeOptions& options) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGPIPE}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  auto gpus = TRY(open_gpus(options));
  TRY(override_setters(options.overrides_path, gpus));
  TRY(check_privilege(options));
  api::ZeusdOptions served;
  served.groups = options.groups;
  served.version = version_text();
  if (!options.key_path.empty()) served.key = TRY(power::read_signing_key(options.key_path));
  served.gpu_period = period_of(options.gpu_hz);
  served.cpu_period = period_of(options.cpu_hz);

  http::Loop loop;
  power::ControlQueues queues(std::move(gpus), [](const power::Executed& done) { log_executed("zeusd", done); });
  power::Rapl rapl(options.sys_root.empty() ? power::Rapl::usual_root() : options.sys_root);
  if (has(options.groups, power::ApiGroup::cpu_read) && !rapl.trouble().empty()) say_zeusd(rapl.trouble());
  api::Zeusd zeusd(loop, queues, rapl, std::move(served));
  http::ServerLimits limits;
  limits.connections_per_uid = limits.connections;
  limits.names = names_of(options);
  http::Server server(loop, zeusd.routes(), std::move(limits));
  server.tell_trouble([](const std::string& what) { say_zeusd(what); });
  const std::string where = TRY(listen(server, options));

  ::sigdelset(&set, SIGPIPE);
  const UniqueFd signals(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  const http::Watch watch(loop, signals.get(), [&loop] { loop.stop(); });
  const std::string ready = std::to_string(queues.count()) + (queues.count() == 1 ? " GPU" : " GPUs") +
                            (options.simulate ? " (SIMULATED)" : "") + "; answers at " + where;
  say_zeusd(ready);
  tell_service_manager(ServiceState::ready, ready);
  loop.run();
  tell_service_manager(ServiceState::stopping);
  server.stop();
  // A hanging call into the driver, or a command, must not delay the end; nothing is left to restore.
  if (!queues.stops_within(std::chrono::seconds(5))) {
    say_zeusd("a call into the driver hangs: ended without its answer");
    std::_Exit(0);
  }
  return {};
}

Result<std::string> issue_zeusd_token(const ZeusdTokenOptions& options) {
  const std::string key = TRY(power::read_signing_key(options.key_path));
  const auto now_s = static_cast<std::int64_t>(unix_now_ns() / 1'000'000'000);
  return power::issue_token(
      {.user = options.user, .scopes = options.scopes, .expires_s = TRY(power::token_end(options.expires, now_s))},
      key);
}

}  // namespace

int zeusd_main(int argc, char** argv) {
  const auto complain = [](const Error& error) {
    std::fprintf(stderr, "headgate: %s\n", error.message.c_str());
    if (!error.hint.empty()) std::fprintf(stderr, "  %s\n", error.hint.c_str());
    return exit_status(error.code);
  };
  const auto options = parse_zeusd(std::vector<std::string>(argv, argv + argc));
  if (!options) return complain(options.error());
  switch (options->command) {
    case ZeusdCommand::help: return std::fputs(zeusd_usage(), stdout), 0;
    case ZeusdCommand::version: return std::puts(("zeusd (headgate " + version_text() + ")").c_str()), 0;
    case ZeusdCommand::token_issue: {
      const auto token = issue_zeusd_token(options->token);
      if (!token) return complain(token.error());
      return std::puts(token->c_str()), 0;
    }
    case ZeusdCommand::serve: break;
  }
  const auto served = serve_zeusd(options->serve);
  return served ? 0 : complain(served.error());
}

}  // namespace headgate::daemon
