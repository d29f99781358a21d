#include "cli/commands.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "cli/power/power_commands.hpp"
#include "cli/run/engine_run.hpp"
#include "cli/run/run.hpp"
#include "cli/share/share_commands.hpp"
#include "cli/support/cdi_commands.hpp"
#include "cli/support/completion.hpp"
#include "cli/support/device_drivers.hpp"
#include "cli/support/doctor.hpp"
#include "cli/support/limiter_files.hpp"
#include "cli/support/runtime_commands.hpp"
#include "cli/support/sim_commands.hpp"
#include "cli/support/support_bundle.hpp"
#include "cli/support/zeusd.hpp"
#include "cli/top/top.hpp"
#include "cli/view/node_commands.hpp"
#include "config/config.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

int refuse(const Error& error, const Voice& voice) {
  complain(error, voice);
  return exit_status(error.code);
}

int show(const std::string& text, const Voice& voice) {
  return print(text) ? 0 : refuse({ErrorCode::failed, "cannot write to standard output", {}}, voice);
}

int show(const Result<std::string>& text, const Voice& voice) {
  return text ? show(*text, voice) : refuse(text.error(), voice);
}

bool json(const Invocation& invocation) { return invocation.voice.format == Format::json; }

Result<std::vector<SymbolReport>> compared(const std::vector<std::string>& libraries) {
  std::vector<SymbolReport> reports;
  for (const auto& library : libraries) reports.push_back(TRY(compare_symbols(library)));
  return reports;
}

int doctor(const Invocation& invocation, const config::Config& config, const SelfTest& self_test) {
  if (!invocation.libraries.empty()) {
    const auto reports = compared(invocation.libraries);
    if (!reports) return refuse(reports.error(), invocation.voice);
    const int shown =
        show(json(invocation) ? symbols_json(*reports) : symbols_text(*reports, invocation.voice), invocation.voice);
    return shown == 0 && std::ranges::any_of(*reports, [](const SymbolReport& report) { return !report.sound(); })
               ? exit_status(ErrorCode::unsupported)
               : shown;
  }
  const Examination examination = examine(invocation, config, self_test);
  const int shown = show(json(invocation) ? findings_json(examination) : findings_text(examination, invocation.voice),
                         invocation.voice);
  return shown == 0 && !examination.ready() ? 1 : shown;
}

int config_check(const Invocation& invocation, const config::Reading& reading) {
  for (const Error& error : reading.errors) complain(error, invocation.voice);
  if (!reading.errors.empty()) return exit_status(reading.errors.front().code);
  // If the command line overrides the address, the daemon listens there. A configuration must be valid without that.
  const config::Setting& listen = reading.config["node.listen"];
  const bool has_token = !reading.config["node.token_file"].value.empty();
  if (const auto may = config::may_listen(listen.origin + ": node.listen =", listen.value, has_token);
      !listen.value.empty() && !may)
    return refuse(may.error(), invocation.voice);
  if (json(invocation))
    return show(Json{{"schema", "headgate.config_check/v1"}, {"files", reading.config.files}}.dump(
                    2, ' ', true, Json::error_handler_t::replace) +
                    "\n",
                invocation.voice);
  const std::size_t count = reading.config.files.size();
  return show(count == 0 ? "no configuration file; the defaults hold\n"
                         : "ok: " + std::to_string(count) + (count == 1 ? " file\n" : " files\n"),
              invocation.voice);
}

int config_show(const Invocation& invocation, const config::Config& config) {
  if (json(invocation)) {
    Json object = {{"schema", "headgate.config/v1"}, {"settings", Json::array()}};
    for (const auto& setting : config.settings)
      object["settings"].push_back({{"key", setting.key},
                                    {"value", setting.value.empty() ? Json() : Json(setting.value)},
                                    {"origin", setting.origin}});
    return show(object.dump(2, ' ', true, Json::error_handler_t::replace) + "\n", invocation.voice);
  }
  std::vector<std::vector<std::string>> rows = {{"KEY", "VALUE"}};
  if (invocation.origin) rows[0].emplace_back("ORIGIN");
  for (const auto& setting : config.settings) {
    rows.push_back({setting.key, setting.value.empty() ? "-" : harmless(setting.value)});
    if (invocation.origin) rows.back().push_back(setting.origin);
  }
  return show(table(rows, invocation.voice), invocation.voice);
}

int version(const Invocation& invocation) {
  if (json(invocation))
    return show(Json{{"schema", "headgate.version/v1"},
                     {"version", kVersion.number},
                     {"commit", kVersion.commit.empty() ? Json() : Json(kVersion.commit)},
                     {"modified", kVersion.modified}}
                        .dump(2) +
                    "\n",
                invocation.voice);
  return show("headgate " + version_text() + "\n", invocation.voice);
}

}  // namespace

int perform(const Invocation& invocation, const Above& above) {
  const Voice& voice = invocation.voice;
  const std::string& word = invocation.command;
  if (invocation.help) return show(*invocation.help, voice);
  if (!voice.quiet)
    for (const std::string& text : invocation.warnings) say(text);
  if (word == "version") return version(invocation);
  if (word == "completion") return show(completion_script(invocation.shell, command_tree()), voice);
  if (word == "demo") return above.demo(voice, invocation.rest);
  if (word == "bench") return above.bench(voice, invocation.simulate, invocation.rest);
  if (word == "zeusd") return zeusd(voice, invocation.rest);

  if (word.starts_with("limiter ")) return limiter_command(word, invocation.limiter, voice);
  if (word == "docker" || word == "podman") return run_in_engine(word, invocation.rest, voice);
  if (word == "gpu drivers") return device_drivers_command(voice);
  if (word.starts_with("runtime ")) return runtime_command(word, invocation.engine, voice);
  if (word.starts_with("cdi ")) return cdi_command(word, invocation.paths, voice);

  const bool given = !invocation.config_path.empty();
  const config::Reading reading = config::read(given ? invocation.config_path : config::kDefaultFile, given);
  if (word == "config check") return config_check(invocation, reading);
  if (word == "support-bundle") return support_bundle(invocation, reading, above.self_test);
  // An unreadable value must not silently become a default, least of all "no limit".
  if (!reading.errors.empty()) return refuse(reading.errors.front(), voice);
  const config::Config& config = reading.config;
  if (word == "run") return run(invocation, config);
  if (is_node_command(word)) return node_command(invocation, config);
  if (word == "top") return top(invocation, config);
  if (word == "events") return events(invocation, config);
  if (word == "why") return why(invocation, config);
  if (word == "doctor") return doctor(invocation, config, above.self_test);
  if (word == "config show") return config_show(invocation, config);
  if (word.starts_with("power ") || word == "gpu mode" || word == "gpu timeslice") return power_command(invocation);
  if (word.starts_with("share ") || word.starts_with("quota ") || word.starts_with("gpu ") ||
      word.starts_with("api ") || word == "metrics")
    return show(share_command(invocation), voice);
  if (word == "sim list") return show(sim_list(invocation), voice);
  if (word == "sim truth") return show(sim_truth(invocation, config), voice);
  if (word == "sim reset") return show(sim_reset(invocation, config), voice);
  if (word == "sim fault") return show(sim_fault(invocation, config), voice);
  if (word == "sim path") return show(sim_path(invocation, config), voice);
  return refuse({ErrorCode::usage, "unknown command '" + word + "'", "see 'headgate --help'"}, voice);
}

}  // namespace headgate::cli
