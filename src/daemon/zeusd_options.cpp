#include "daemon/zeusd_program.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "base/joined.hpp"
#include "base/utf8.hpp"
#include "base/whole_number.hpp"
#include "config/listen_address.hpp"

namespace headgate::daemon {
namespace {

std::unexpected<Error> refuse(const std::string& flag, const std::string& value, const std::string& accepted) {
  return fail(ErrorCode::usage, "zeusd: " + flag + " '" + printable(value) + "' is not accepted",
              "accepted: " + accepted);
}

using Take = std::function<Result<void>(const std::string& flag, const std::string& value)>;
using Flags = std::map<std::string, Take, std::less<>>;

// Takes "--flag VALUE" and "--flag=VALUE", each with a value.
Result<void> take_flags(const std::vector<std::string>& words, std::size_t from, const Flags& flags) {
  for (std::size_t i = from; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const auto flag = flags.find(name);
    if (flag == flags.end())
      return fail(ErrorCode::usage, "zeusd: unknown option '" + printable(words[i]) + "'",
                  "accepted: " + joined(flags, ", ", &Flags::value_type::first));
    std::string value;
    // The profile of --sim is optional, so it is taken only after '='.
    if (equals != std::string::npos) value = words[i].substr(equals + 1);
    else if (name == "--sim") value.clear();
    else if (i + 1 < words.size()) value = words[++i];
    else return fail(ErrorCode::usage, "zeusd: " + name + " needs a value");
    TRY(flag->second(name, value));
  }
  return {};
}

template <typename Number>
Take number_into(Number& into, std::uint32_t least, std::uint32_t most) {
  return [&into, least, most](const std::string& flag, const std::string& value) -> Result<void> {
    const auto number = whole_number<std::uint32_t>(value);
    if (!number || *number < least || *number > most)
      return refuse(flag, value, std::to_string(least) + " to " + std::to_string(most));
    into = *number;
    return {};
  };
}

Take text_into(std::string& into) {
  return [&into](const std::string& flag, const std::string& value) -> Result<void> {
    if (value.empty()) return refuse(flag, value, "a text that is not empty");
    into = value;
    return {};
  };
}

Take groups_into(std::vector<power::ApiGroup>& into) {
  return [&into](const std::string&, const std::string& value) -> Result<void> {
    into = TRY(power::api_groups_from(value));
    return {};
  };
}

Flags serve_flags(ZeusdServeOptions& serve, std::uint32_t& workers) {
  Flags flags;
  flags["--mode"] = [&serve](const std::string& flag, const std::string& value) -> Result<void> {
    if (value != "uds" && value != "tcp") return refuse(flag, value, "uds, tcp (there are no named pipes on Linux)");
    serve.tcp = value == "tcp";
    return {};
  };
  flags["--socket-path"] = text_into(serve.socket_path);
  flags["--socket-permissions"] = [&serve](const std::string& flag, const std::string& value) -> Result<void> {
    const auto mode = whole_number<std::uint32_t>(value, 8);
    if (!mode || *mode > 0777) return refuse(flag, value, "an octal mode such as 666 or 660");
    serve.socket_mode = static_cast<mode_t>(*mode);
    return {};
  };
  flags["--socket-uid"] = number_into(serve.socket_uid, 0, ~0U - 1);
  flags["--socket-gid"] = number_into(serve.socket_gid, 0, ~0U - 1);
  flags["--tcp-bind-address"] = [&serve](const std::string& flag, const std::string& value) -> Result<void> {
    if (!config::parse_listen_address(value)) return refuse(flag, value, "127.0.0.1:4938, [::1]:4938");
    serve.tcp_address = value;
    return {};
  };
  flags["--num-workers"] = number_into(workers, 1, 65'535);
  flags["--gpu-power-poll-hz"] = number_into(serve.gpu_hz, 1, 1000);
  flags["--cpu-power-poll-hz"] = number_into(serve.cpu_hz, 1, 1000);
  flags["--gpu-backend"] = [&serve](const std::string& flag, const std::string& value) -> Result<void> {
    if (value != "auto" && value != "nvml") return refuse(flag, value, "auto, nvml");
    serve.explicit_backend = value == "nvml";
    return {};
  };
  flags["--enable"] = groups_into(serve.groups);
  flags["--gpu-command-overrides"] = text_into(serve.overrides_path);
  flags["--signing-key-path"] = text_into(serve.key_path);
  flags["--name"] = [&serve](const std::string& flag, const std::string& value) -> Result<void> {
    if (value.empty()) return refuse(flag, value, "a host name");
    serve.names.push_back(value);
    return {};
  };
  flags["--sim"] = [&serve](const std::string&, const std::string& value) -> Result<void> {
    serve.simulate = value;
    return {};
  };
  flags["--sys-root"] = text_into(serve.sys_root);
  return flags;
}

Result<ZeusdOptions> parse_token(const std::vector<std::string>& words) {
  ZeusdOptions options;
  options.command = ZeusdCommand::token_issue;
  ZeusdTokenOptions& token = options.token;
  Flags flags;
  flags["--signing-key-path"] = text_into(token.key_path);
  flags["--user"] = text_into(token.user);
  flags["--expires"] = text_into(token.expires);
  flags["--scope"] = groups_into(token.scopes);
  TRY(take_flags(words, 2, flags));
  for (const auto& [flag, value] : {std::pair{"--signing-key-path", &token.key_path}, std::pair{"--user", &token.user},
                                    std::pair{"--expires", &token.expires}})
    if (value->empty())
      return fail(ErrorCode::usage, std::string("zeusd: token issue needs ") + flag,
                  "--signing-key-path FILE --user NAME --expires 30d|never [--scope gpu-control,gpu-read,cpu-read]");
  return options;
}

}  // namespace

const char* zeusd_usage() {
  return "Usage: headgate zeusd serve [OPTIONS]\n"
         "       headgate zeusd token issue --signing-key-path FILE --user NAME --expires TIME [--scope GROUPS]\n"
         "The API of zeusd: GPU power, clocks and energy over HTTP, without root for its callers.\n\n"
         "serve:\n"
         "  --mode uds|tcp                where to listen (uds)\n"
         "  --socket-path PATH            /run/zeusd/zeusd.sock; its directory is made\n"
         "  --socket-permissions MODE     octal (666); --socket-uid UID, --socket-gid GID set its owner\n"
         "  --tcp-bind-address ADDR:PORT  127.0.0.1:4938\n"
         "  --name HOST                   a name of this machine in requests over TCP; may be repeated\n"
         "  --gpu-power-poll-hz N         of power streams (20); --cpu-power-poll-hz N (10)\n"
         "  --gpu-backend auto|nvml       nvml: do not start without GPUs\n"
         "  --enable GROUPS               gpu-control,gpu-read,cpu-read\n"
         "  --gpu-command-overrides FILE  commands that set power and clocks instead of NVML\n"
         "  --signing-key-path FILE       callers need tokens signed with it\n"
         "  --sys-root DIR                the sysfs with CPU energy (/zeus_sys, then /sys)\n"
         "  --sim[=PROFILE]               a simulated node instead of the machine's GPUs\n"
         "  --num-workers N               accepted for compatibility; has no effect\n\n"
         "token issue:\n"
         "  --expires TIME                30d, 12h, 1h 30m; never or 0 for no end\n"
         "  --scope GROUPS                which API groups the token opens; none without it\n";
}

Result<ZeusdOptions> parse_zeusd(const std::vector<std::string>& words) {
  ZeusdOptions options;
  const auto asks_for = [&words](const char* flag) { return std::ranges::find(words, flag) != words.end(); };
  if (words.empty() || asks_for("--help") || asks_for("-h")) return options;
  options.command = ZeusdCommand::version;
  if (words[0] == "--version" || words[0] == "-V") return options;
  if (words[0] == "token" && words.size() > 1 && words[1] == "issue") return parse_token(words);
  if (words[0] != "serve")
    return fail(ErrorCode::usage, "zeusd: unknown command '" + printable(words[0]) + "'",
                "accepted: serve, token issue");
  options.command = ZeusdCommand::serve;
  std::uint32_t workers = 0;  // one thread serves all; a unit's number is read and ignored
  TRY(take_flags(words, 1, serve_flags(options.serve, workers)));
  return options;
}

}  // namespace headgate::daemon
