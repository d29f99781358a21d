#include "cli/words.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "cli/bench.hpp"
#include "cli/chosen_source.hpp"
#include "cli/completion.hpp"
#include "cli/demo.hpp"
#include "cli/doctor.hpp"
#include "cli/run.hpp"
#include "cli/share_words.hpp"
#include "cli/sim_words.hpp"
#include "cli/top/top.hpp"
#include "cli/views.hpp"
#include "cli/wish.hpp"
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

void pause_ms(std::uint64_t milliseconds) {
  timespec rest{static_cast<time_t>(milliseconds / 1000), static_cast<long>(milliseconds % 1000 * 1'000'000)};
  while (::nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

// The daemon's picture where one runs, unless a simulated node of one's own was asked for. Else one look, or two where rates
// are wanted and something runs.
Result<Picture> look(const Invocation& invocation, const config::Config& config, bool rates, bool events = false) {
  const Chosen chosen = TRY(choose_source(invocation, config));
  const bool daemon = chosen.daemon.has_value();
  auto now = TRY(chosen.source->look());
  if (rates && !daemon && std::ranges::any_of(now.shares, [](const auto& share) { return share.processes > 0; })) {
    pause_ms(invocation.interval_ms);
    now = TRY(chosen.source->look());
  }
  const std::string no_gpus = chosen.source->remark();
  if (invocation.simulate && !no_gpus.empty()) return fail(ErrorCode::unreachable, no_gpus);
  for (const auto& share : now.shares) {
    if (!share.problem.empty()) complain({ErrorCode::failed, share.problem, {}}, invocation.voice);
  }
  Picture picture{std::move(now), no_gpus, daemon};
  if (events) picture.events = TRY(chosen.source->events_after(0));
  return picture;
}

int status(const Invocation& invocation, const config::Config& config) {
  const auto picture = look(invocation, config, true);
  if (!picture) return refuse(picture.error(), invocation.voice);
  const bool nothing = !picture->no_gpus.empty() && picture->now.shares.empty();
  if (nothing)
    complain({ErrorCode::unreachable, picture->no_gpus,
              "'headgate status --sim' looks at a simulated GPU, 'headgate demo' shows one at work"},
             invocation.voice);
  if (nothing && !json(invocation)) return exit_status(ErrorCode::unreachable);
  const int shown =
      show(json(invocation) ? status_json(*picture) : status_text(*picture, invocation.voice), invocation.voice);
  return shown == 0 && nothing ? exit_status(ErrorCode::unreachable) : shown;
}

int ps(const Invocation& invocation, const config::Config& config) {
  auto picture = look(invocation, config, true);
  if (!picture) return refuse(picture.error(), invocation.voice);
  std::vector<std::string> uuids;
  if (!invocation.gpu.empty()) {
    const snapshot::Node& node = picture->now.node;
    const auto chosen = choose_gpus("--gpu", invocation.gpu, {picture->now.gpus, node.driver_version, node.simulated});
    if (!chosen) return refuse(chosen.error(), invocation.voice);
    for (const std::size_t index : *chosen) uuids.push_back(picture->now.gpus[index].uuid);
  }
  picture->now = narrowed(std::move(picture->now), invocation.user, uuids);
  return show(json(invocation) ? ps_json(*picture) : ps_text(*picture, invocation.voice), invocation.voice);
}

int free_words(const Invocation& invocation, const config::Config& config) {
  std::optional<Fit> fit;
  if (!invocation.fit.empty()) {
    const auto parsed = parse_fit(invocation.fit);
    if (!parsed) return refuse(parsed.error(), invocation.voice);
    fit = *parsed;
  }
  const auto picture = look(invocation, config, false);
  if (!picture) return refuse(picture.error(), invocation.voice);
  if (!picture->no_gpus.empty())
    return refuse({ErrorCode::unreachable, picture->no_gpus, "'headgate free --sim' looks at a simulated node"},
                  invocation.voice);
  const auto all = rooms(*picture, fit);
  const int shown =
      show(json(invocation) ? free_json(*picture, all, fit) : free_text(*picture, all, fit, invocation.voice),
           invocation.voice);
  const bool nowhere = fit && std::ranges::none_of(all, &Room::fits);
  return shown == 0 && nowhere ? exit_status(ErrorCode::no_capacity) : shown;
}

int why(const Invocation& invocation, const config::Config& config) {
  const auto picture = look(invocation, config, false, true);
  if (!picture) return refuse(picture.error(), invocation.voice);
  std::string asked = invocation.share;
  if (const auto* process = process_numbered(picture->now, asked)) {
    if (process->share.empty()) return show(why_not_held(*picture, *process, invocation.voice), invocation.voice);
    asked = process->share;
  }
  std::vector<snapshot::Share> chosen;
  std::string names;
  for (const snapshot::Share& share : picture->now.shares) {
    const bool meant = share.name == asked;
    if (meant && !share.problem.empty()) return 1;  // look() has said why
    if (share.devices.empty()) continue;
    if (asked.empty() || meant) chosen.push_back(share);
    names += (names.empty() ? "" : ", ") + share.name;
  }
  if (chosen.empty() && !asked.empty()) {
    return refuse({ErrorCode::usage, "there is no share '" + harmless(asked) + "'",
                   names.empty() ? "there are no shares" : "shares here: " + names},
                  invocation.voice);
  }
  return show(json(invocation) ? why_json(*picture, chosen) : why_text(*picture, chosen, invocation.voice),
              invocation.voice);
}

Result<std::vector<SymbolReport>> compared(const std::vector<std::string>& libraries) {
  std::vector<SymbolReport> reports;
  for (const auto& library : libraries) reports.push_back(TRY(compare_symbols(library)));
  return reports;
}

int doctor(const Invocation& invocation, const config::Config& config) {
  if (!invocation.libraries.empty()) {
    const auto reports = compared(invocation.libraries);
    if (!reports) return refuse(reports.error(), invocation.voice);
    const int shown =
        show(json(invocation) ? symbols_json(*reports) : symbols_text(*reports, invocation.voice), invocation.voice);
    return shown == 0 && std::ranges::any_of(*reports, [](const SymbolReport& report) { return !report.sound(); })
               ? exit_status(ErrorCode::unsupported)
               : shown;
  }
  const Examination examination = examine(invocation, config);
  const auto& findings = examination.findings;
  const int shown =
      show(json(invocation) ? findings_json(examination) : findings_text(findings, invocation.voice), invocation.voice);
  return shown == 0 &&
                 std::ranges::any_of(findings, [](const Finding& finding) { return finding.health == Health::fail; })
             ? 1
             : shown;
}

int config_check(const Invocation& invocation, const config::Reading& reading) {
  for (const Error& error : reading.errors) complain(error, invocation.voice);
  if (!reading.errors.empty()) return exit_status(ErrorCode::usage);
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

int perform(const Invocation& invocation) {
  const Voice& voice = invocation.voice;
  const std::string& word = invocation.word;
  if (invocation.help) return show(*invocation.help, voice);
  if (word == "version") return version(invocation);
  if (word == "completion") return show(completion_script(invocation.shell, word_tree()), voice);
  if (word == "demo") return demo(voice, invocation.rest);
  if (word == "bench") return bench(voice, invocation.simulate, invocation.rest);

  const bool given = !invocation.config_path.empty();
  const config::Reading reading = config::read(given ? invocation.config_path : config::kUsualFile, given);
  if (word == "config check") return config_check(invocation, reading);
  // A value that cannot be read must not silently become a default, least of all "no limit".
  if (!reading.errors.empty()) return refuse(reading.errors.front(), voice);
  const config::Config& config = reading.config;
  if (word == "run") return run(invocation, config);
  if (word == "status") return status(invocation, config);
  if (word == "ps") return ps(invocation, config);
  if (word == "free") return free_words(invocation, config);
  if (word == "top") return top(invocation, config);
  if (word == "events") return events(invocation, config);
  if (word == "why") return why(invocation, config);
  if (word == "doctor") return doctor(invocation, config);
  if (word == "config show") return config_show(invocation, config);
  if (word.starts_with("share ") || word.starts_with("quota ") || word.starts_with("gpu ") ||
      word.starts_with("api ") || word == "metrics")
    return show(share_word(invocation), voice);
  if (word == "sim list") return show(sim_list(invocation), voice);
  if (word == "sim truth") return show(sim_truth(invocation, config), voice);
  if (word == "sim reset") return show(sim_reset(invocation, config), voice);
  if (word == "sim fault") return show(sim_fault(invocation, config), voice);
  if (word == "sim path") return show(sim_path(invocation, config), voice);
  return refuse({ErrorCode::usage, "unknown word '" + word + "'", "see 'headgate --help'"}, voice);
}

}  // namespace headgate::cli
