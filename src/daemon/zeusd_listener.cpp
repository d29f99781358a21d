#include "daemon/zeusd_listener.hpp"

#include <filesystem>
#include <vector>

#include "base/version.hpp"
#include "daemon/journal.hpp"
#include "daemon/settings.hpp"
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

bool ZeusdListener::is_wanted(const config::Config& config, const Options& options) {
  return !options.zeusd_socket.empty() || !config["zeusd.socket"].value.empty() ||
         !config["zeusd.listen"].value.empty();
}

Result<void> ZeusdListener::check(const config::Config& config) {
  const bool has_key = TRY(key_of(config)).has_value();
  TRY(addresses_of(config, has_key));
  return {};
}

Result<std::unique_ptr<ZeusdListener>> ZeusdListener::start(Context& context, PowerControl& power) {
  const config::Config& config = context.config;
  if (!is_wanted(config, context.options)) return nullptr;
  std::unique_ptr<ZeusdListener> on(new ZeusdListener());
  if (!on->rapl_.trouble().empty()) warn_of_zeusd(on->rapl_.trouble());
  api::ZeusdOptions served;
  served.groups = TRY(power::api_groups_from(config["zeusd.enable"].value));
  served.key = TRY(key_of(config));
  served.version = version_text();
  const PowerPermissions& may = power.permissions();
  served.may_write = [&may](const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& listed,
                            const power::Command& command) { return may.may_write(caller, listed, command); };
  served.reads_live = [&may](const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) {
    return may.reads_live(caller, gpu);
  };
  const std::string session = config["zeusd.session"].value;
  if (session != "none")
    served.before_write = [&power, login = session == "login"](
                              const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& listed,
                              const power::Command& command, std::function<void(Result<void>)> begin) {
      power.save_before(caller, login, listed, command, std::move(begin));
    };
  const bool has_key = served.key.has_value();
  on->zeusd_.emplace(context.loop, power.queues(), on->rapl_, std::move(served));
  TRY(on->listen(context, has_key));
  note("the API of zeusd answers at " + on->where_);
  return on;
}

Result<void> ZeusdListener::listen(Context& context, bool has_key) {
  http::ServerLimits limits = server_limits(context.config);
  if (has_key) limits.shows_key = zeusd_->shows_token();
  server_.emplace(context.loop, zeusd_->routes(), std::move(limits));
  server_->tell_trouble([](const std::string& what) { warn_of_zeusd(what); });
  const std::string& named = context.options.zeusd_socket;
  const std::string path = named.empty() ? context.config["zeusd.socket"].value : named;
  if (!path.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error) return fail(ErrorCode::failed, "making the directory of " + path + ": " + error.message());
    // Open to all users: each request is checked against its caller's user ID.
    TRY(server_->listen(http::UnixListener{.path = path, .mode = 0666, .group = {}}));
    where_ = path;
  }
  for (const config::ListenAddress& address : TRY(addresses_of(context.config, has_key)))
    where_ += (where_.empty() ? "" : ", ") + url_of(address, TRY(server_->listen(address.host, address.port)));
  return {};
}

}  // namespace headgate::daemon
