// Small commands: `config check` and `show`, `version`, `zeusd`; `metrics` and `api`: what headgated says of itself.
#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "cli/commands.hpp"
#include "cli/run/launch.hpp"
#include "cli/share/daemon.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<int> config_check(const Call& call) {
  const config::Reading& reading = call.configuration;
  for (const Error& error : reading.errors) complain(error, call.voice);
  if (!reading.errors.empty()) return exit_status(reading.errors.front().code);
  // If the command line overrides the address, the daemon listens there. A configuration must be valid without that.
  const config::Setting& listen = reading.config["node.listen"];
  const bool has_token = !reading.config["node.token_file"].value.empty();
  if (!listen.value.empty()) TRY(config::may_listen(listen.origin + ": node.listen =", listen.value, has_token));
  if (call.voice.format == Format::json)
    return show(pretty_json({{"schema", "headgate.config_check/v1"}, {"files", reading.config.files}}));
  const std::size_t count = reading.config.files.size();
  return show(count == 0 ? "no configuration file; the defaults hold\n"
                         : "ok: " + std::to_string(count) + (count == 1 ? " file\n" : " files\n"));
}

Result<int> config_show(const Call& call, bool origin) {
  const auto& settings = call.configuration.config.settings;
  if (call.voice.format == Format::json) {
    Json object = {{"schema", "headgate.config/v1"}, {"settings", Json::array()}};
    for (const auto& setting : settings)
      object["settings"].push_back({{"key", setting.key},
                                    {"value", setting.value.empty() ? Json() : Json(setting.value)},
                                    {"origin", setting.origin}});
    return show(pretty_json(object));
  }
  std::vector<std::vector<std::string>> rows = {{"KEY", "VALUE"}};
  if (origin) rows[0].emplace_back("ORIGIN");
  for (const auto& setting : settings) {
    rows.push_back({setting.key, setting.value.empty() ? "-" : harmless(setting.value)});
    if (origin) rows.back().push_back(setting.origin);
  }
  return show(table(rows, call.voice));
}

Result<int> version(const Call& call) {
  if (call.voice.format != Format::json) return show("headgate " + version_text() + "\n");
  return show(pretty_json({{"schema", "headgate.version/v1"},
                           {"version", kVersion.number},
                           {"commit", kVersion.commit.empty() ? Json() : Json(kVersion.commit)},
                           {"modified", kVersion.modified}}));
}

// Replaces this process.
Result<int> zeusd(const Call& call) {
  std::vector<std::string> all = {TRY(install::daemon_program()), "zeusd"};
  all.insert(all.end(), call.words.begin(), call.words.end());
  return become(all);
}

Result<int> show_reply(const char* target) {
  const http::Endpoint daemon = TRY(need_daemon());
  return show(TRY(ask(daemon, "GET", target)) + "\n");
}

Result<int> metrics(const Call& call) {
  return show_reply(call.voice.format == Format::jsonl ? "/metrics/json" : "/metrics");
}

}  // namespace

Commands config_commands() {
  return {
      parent_command(kPlumbing, "config", "check or show the configuration"),
      plain_command(kCommands, "config check", "read the configuration and report mistakes", config_check,
                    Reads::configuration),
      command<bool>(
          kCommands, "config show", "show every key with its value",
          [](Options& options, bool& origin) { options.flag("--origin", "show where each value comes from", origin); },
          config_show)};
}

Commands version_commands() {
  return {plain_command(kPlumbing, "version", "print headgate's version", version, Reads::nothing)};
}

Commands zeusd_commands() {
  return {plain_command(kPlumbing, "zeusd", "serve zeusd's API: GPU power, clocks and energy for users without root",
                        zeusd, Reads::nothing, [](Options& options) {
                          options.rest = Rest::unread;
                          options.footer =
                              "Commands: serve, token issue; headgate zeusd serve --help lists their options";
                        })};
}

Commands api_commands() {
  // A Prometheus page has no JSON form.
  const auto forms = [](Options& options) { options.formats = {Format::table, Format::jsonl}; };
  return {plain_command(kPlumbing, "metrics", "print headgated's metrics for Prometheus", metrics, Reads::sound, forms),
          parent_command(kPlumbing, "api", "describe headgated's HTTP API"),
          plain_command(kCommands, "api schema", "print the OpenAPI document",
                        [](const Call&) { return show_reply("/v1/openapi.json"); })};
}

}  // namespace headgate::cli
