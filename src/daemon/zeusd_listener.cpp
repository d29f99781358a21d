#include "daemon/zeusd_listener.hpp"

#include <filesystem>
#include <optional>
#include <vector>

#include "api/zeusd.hpp"
#include "base/version.hpp"
#include "daemon/journal.hpp"
#include "daemon/settings.hpp"
#include "http/server.hpp"
#include "power/rapl.hpp"
#include "power/token.hpp"

namespace headgate::daemon {
namespace {

Result<std::optional<std::string>> key_of(const config::Config& config) {
  const std::string& path = config["zeusd.signing_key"].value;
  if (path.empty()) return std::optional<std::string>{};
  return std::optional(TRY(power::read_signing_key(path)));
}

Result<std::vector<config::ListenAddress>> addresses_of(const config::Config& config, bool has_key) {
  std::vector<config::ListenAddress> addresses;
  const config::Setting& listen = config["zeusd.listen"];
  for (const std::string& one : list_from(listen.value)) {
    const std::string said = listen.origin + ": zeusd.listen =";
    if (auto may = config::may_listen(said, one, has_key); !may)
      return fail(ErrorCode::usage, may.error().message, "set zeusd.signing_key, or listen on 127.0.0.1");
    addresses.push_back(TRY(listen_address_from(said, one, true)));
  }
  return addresses;
}

void warn_of_zeusd(const std::string& text) { journal(JournalLevel::warning, "zeusd: " + text); }

}  // namespace

struct ZeusdListener::Impl {
  Result<void> listen(http::Loop& loop, const config::Config& config, const Options& options, bool has_key) {
    http::ServerLimits limits = server_limits(config);
    if (has_key) limits.shows_key = zeusd->shows_token();
    server.emplace(loop, zeusd->routes(), std::move(limits));
    server->tell_trouble([](const std::string& what) { warn_of_zeusd(what); });
    const std::string path = options.zeusd_socket.empty() ? config["zeusd.socket"].value : options.zeusd_socket;
    if (!path.empty()) {
      std::error_code error;
      std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
      if (error) return fail(ErrorCode::failed, "making the directory of " + path + ": " + error.message());
      // Open to all users: each request is checked against its caller's user ID.
      if (auto bound = server->listen(http::UnixListener{.path = path, .mode = 0666, .group = {}}); !bound)
        return bound;
      where = path;
    }
    for (const config::ListenAddress& address : TRY(addresses_of(config, has_key))) {
      const std::uint16_t port = TRY(server->listen(address.host, address.port));
      where += (where.empty() ? "" : ", ") + std::string("http://") +
               (address.host.contains(':') ? "[" + address.host + "]" : address.host) + ":" + std::to_string(port);
    }
    return {};
  }

  std::optional<power::Rapl> rapl;
  std::optional<api::Zeusd> zeusd;
  std::optional<http::Server> server;
  std::string where;
};

bool ZeusdListener::is_wanted(const config::Config& config, const Options& options) {
  return !options.zeusd_socket.empty() || !config["zeusd.socket"].value.empty() ||
         !config["zeusd.listen"].value.empty();
}

Result<void> ZeusdListener::check(const config::Config& config) {
  const bool has_key = TRY(key_of(config)).has_value();
  TRY(addresses_of(config, has_key));
  return {};
}

Result<std::unique_ptr<ZeusdListener>> ZeusdListener::start(http::Loop& loop, const config::Config& config,
                                                            const Options& options, PowerControl& power) {
  auto impl = std::make_unique<Impl>();
  Impl& on = *impl;
  on.rapl.emplace(power::Rapl::usual_root());
  if (!on.rapl->trouble().empty()) warn_of_zeusd(on.rapl->trouble());
  api::ZeusdOptions served;
  served.groups = TRY(power::api_groups_from(config["zeusd.enable"].value));
  served.key = TRY(key_of(config));
  served.version = version_text();
  served.may_write = [&power](const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& listed,
                              const power::Command& command) { return power.may_write(caller, listed, command); };
  const std::string session = config["zeusd.session"].value;
  if (session != "none")
    served.before_write = [&power, login = session == "login"](
                              const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& listed,
                              const power::Command& command, std::function<void(Result<void>)> begin) {
      power.save_before(caller, login, listed, command, std::move(begin));
    };
  served.reads_live = [&power](const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) {
    return power.reads_live(caller, gpu);
  };
  const bool has_key = served.key.has_value();
  on.zeusd.emplace(loop, power.queues(), *on.rapl, std::move(served));
  if (auto listening = on.listen(loop, config, options, has_key); !listening) return std::unexpected(listening.error());
  return std::unique_ptr<ZeusdListener>(new ZeusdListener(std::move(impl)));
}

ZeusdListener::ZeusdListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZeusdListener::~ZeusdListener() = default;

const std::string& ZeusdListener::where() const { return impl_->where; }
void ZeusdListener::stop() { impl_->server->stop(); }

}  // namespace headgate::daemon
