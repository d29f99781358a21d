#include "cli/view/node_commands.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <string_view>
#include <thread>

#include "cli/run/run_request.hpp"
#include "cli/share/daemon.hpp"
#include "cli/term/records.hpp"
#include "cli/view/chosen_source.hpp"
#include "cli/view/names.hpp"
#include "cli/view/views.hpp"
#include "cli/view/watch.hpp"

namespace headgate::cli {
namespace {

int refuse(const Error& error, const Voice& voice) {
  complain(error, voice);
  return exit_status(error.code);
}

// A view of one snapshot: text for stdout, and an error to print beside it.
struct Shown {
  std::string text = {};
  std::optional<Error> trouble = {};
  int status = 0;  // exit status if there is no error
};
// `heading`: CSV starts with the column names.
using View = std::function<Result<Shown>(const NodeSnapshot& snapshot, const Voice& voice, bool heading)>;

std::string lines(const Records& records, const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  const Origin origin = origin_of(snapshot.now);
  return voice.format == Format::csv ? csv(records, origin, heading) : jsonl(records, origin);
}

Result<Shown> status_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  Shown shown;
  if (shown.trouble = nothing_to_show(snapshot.no_gpus, snapshot.now, "status"); shown.trouble) {
    if (voice.format != Format::json) return std::unexpected(*shown.trouble);
  }
  const Records shares = records_of("headgate.share/v1", snapshot.now.shares);
  switch (voice.format) {
    case Format::json: shown.text = status_json(snapshot); break;
    case Format::jsonl:
      shown.text = lines(records_of("headgate.gpu/v1", snapshot.now.gpus), snapshot, voice, heading) +
                   lines(shares, snapshot, voice, heading);
      break;
    case Format::csv: shown.text = lines(shares, snapshot, voice, heading); break;
    default: shown.text = status_text(snapshot, voice);
  }
  return shown;
}

Result<Shown> ps_view(NodeSnapshot snapshot, const Invocation& invocation, const Voice& voice, bool heading) {
  if (auto nothing = nothing_to_show(snapshot.no_gpus, snapshot.now, "ps")) return std::unexpected(*std::move(nothing));
  std::vector<std::string> uuids;
  if (!invocation.gpu.empty()) {
    const snapshot::Node& node = snapshot.now.node;
    const auto chosen =
        TRY(choose_gpus("--gpu", invocation.gpu, {snapshot.now.gpus, node.driver_version, node.simulated}));
    for (const std::size_t index : chosen) uuids.push_back(snapshot.now.gpus[index].uuid);
  }
  snapshot.now = narrowed(std::move(snapshot.now), invocation.user, uuids);
  // A misspelt user or GPU also gives an empty list; saying that no share has processes would be untrue.
  if (is_table(voice.format) && snapshot.now.processes.empty() && !(invocation.user + invocation.gpu).empty())
    return Shown{.text = stamp(snapshot.now, voice) + "no process" +
                         (invocation.user.empty() ? "" : " of the user " + harmless(invocation.user)) +
                         " is in a share or on a GPU" +
                         (invocation.gpu.empty() ? "" : " of --gpu " + harmless(invocation.gpu)) + "\n"};
  if (is_table(voice.format)) return Shown{.text = ps_text(snapshot, voice)};
  if (voice.format == Format::json) return Shown{.text = ps_json(snapshot)};
  return Shown{.text = lines(records_of("headgate.process/v1", snapshot.now.processes), snapshot, voice, heading)};
}

Result<Shown> free_view(const NodeSnapshot& snapshot, const std::optional<Fit>& fit, const Voice& voice, bool heading) {
  if (!snapshot.no_gpus.empty())
    return fail(ErrorCode::unreachable, snapshot.no_gpus, "'headgate free --sim' looks at a simulated node");
  const auto all = rooms(snapshot, fit);
  Shown shown;
  if (is_table(voice.format)) shown.text = free_text(snapshot, all, fit, voice);
  else if (voice.format == Format::json) shown.text = free_json(snapshot, all, fit);
  else shown.text = lines(free_records(all, fit), snapshot, voice, heading);
  if (fit && std::ranges::none_of(all, &Room::fits)) shown.status = exit_status(ErrorCode::no_capacity);
  return shown;
}

Result<Shown> gpus_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  if (!snapshot.no_gpus.empty())
    return fail(ErrorCode::unreachable, snapshot.no_gpus, "'headgate gpu ls --sim' looks at a simulated node");
  if (is_table(voice.format)) return Shown{.text = gpus_text(snapshot, voice)};
  if (voice.format == Format::json) return Shown{.text = gpus_json(snapshot)};
  return Shown{.text = lines(records_of("headgate.gpu/v1", snapshot.now.gpus), snapshot, voice, heading)};
}

Result<Shown> shares_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  if (is_table(voice.format)) {
    return Shown{.text = stamp(snapshot.now, voice) + shares_text(snapshot.now.shares, snapshot.now, voice) +
                         waiting_text(snapshot.now, voice)};
  }
  if (voice.format == Format::json)
    return Shown{.text =
                     enclosed("headgate.shares/v1", "shares", snapshot::to_json(snapshot.now.shares), snapshot.now)};
  return Shown{.text = lines(records_of("headgate.share/v1", snapshot.now.shares), snapshot, voice, heading)};
}

// Parses the request before any snapshot is taken.
Result<View> view_of(const Invocation& invocation) {
  const std::string& word = invocation.command;
  if (word == "ps")
    return [&invocation](const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
      return ps_view(snapshot, invocation, voice, heading);
    };
  if (word == "gpu ls") return gpus_view;
  if (word == "share ls") return shares_view;
  if (word != "free") return status_view;
  std::optional<Fit> fit;
  if (!invocation.fit.empty()) fit = TRY(parse_fit(invocation.fit));
  return [fit](const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
    return free_view(snapshot, fit, voice, heading);
  };
}

// Uses the daemon if one runs, unless a private simulated node was requested. Only a daemon keeps shares that can be
// listed.
Result<Chosen> source_of(const Invocation& invocation, const config::Config& config) {
  if (invocation.command != "share ls") return choose_source(invocation, config);
  const http::Endpoint daemon = TRY(need_daemon());
  return Chosen{daemon_source(daemon), daemon};
}

// Returns the events of the last day for `why`.
Result<std::vector<snapshot::Event>> told_before(SnapshotSource& source, std::uint64_t now_unix_ns) {
  const std::uint64_t since = now_unix_ns - std::min(now_unix_ns, kRecentNs);
  std::vector<std::string> kinds(std::begin(kAdmissionKinds), std::end(kAdmissionKinds));
  for (const Denial& denial : kDenials) kinds.emplace_back(denial.kind);
  kinds.emplace_back(kWaitingAllocation);
  std::vector<snapshot::Event> all;
  for (const std::string& kind : kinds)
    std::ranges::move(TRY(source.events_that({.since_unix_ns = since, .kind = kind})), std::back_inserter(all));
  return all;
}

// Takes one snapshot, or two if there is no daemon, rates are needed and a program runs.
Result<NodeSnapshot> look(const Invocation& invocation, const config::Config& config, bool rates, bool events = false) {
  const Chosen chosen = TRY(source_of(invocation, config));
  if (chosen.silence) complain(*chosen.silence, invocation.voice);
  const bool daemon = chosen.daemon.has_value();
  auto now = TRY(chosen.source->look());
  if (rates && !daemon && std::ranges::any_of(now.shares, [](const auto& share) { return share.processes > 0; })) {
    std::this_thread::sleep_for(std::chrono::milliseconds(invocation.interval_ms));
    now = TRY(chosen.source->look());
  }
  const std::string no_gpus = chosen.source->remark();
  if (invocation.simulate && !no_gpus.empty()) return fail(ErrorCode::unreachable, no_gpus);
  NodeSnapshot snapshot{std::move(now), no_gpus, daemon};
  if (events) snapshot.events = TRY(told_before(*chosen.source, snapshot.now.taken_unix_ns));
  return snapshot;
}

void name_problems(const NodeSnapshot& snapshot, const Voice& voice) {
  for (const auto& share : snapshot.now.shares) {
    if (!share.problem.empty()) complain({ErrorCode::failed, share.problem, {}}, voice);
  }
}

// Prints the view and returns the exit status.
int put(const Result<Shown>& shown, const Voice& voice) {
  if (!shown) return refuse(shown.error(), voice);
  if (shown->trouble) complain(*shown->trouble, voice);
  if (!print(shown->text)) return refuse({ErrorCode::failed, "cannot write to standard output", {}}, voice);
  return shown->trouble ? exit_status(shown->trouble->code) : shown->status;
}

// Repeats the view of one source; returns the exit status.
int again(const Invocation& invocation, const config::Config& config, const View& view) {
  auto chosen = source_of(invocation, config);
  if (!chosen) return refuse(chosen.error(), invocation.voice);
  if (chosen->silence) complain(*chosen->silence, invocation.voice);
  const bool daemon = chosen->daemon.has_value();
  const auto draw = [&](const Look& look, const Voice& voice, bool heading) -> Result<std::string> {
    if (!look.snapshot) return std::unexpected(look.snapshot.error());
    // A daemon's snapshot is complete; the remark could only be about events, which are not shown.
    const NodeSnapshot snapshot{*look.snapshot, daemon ? "" : look.remark, daemon};
    if (invocation.simulate && !snapshot.no_gpus.empty()) return fail(ErrorCode::unreachable, snapshot.no_gpus);
    return TRY(view(snapshot, voice, heading)).text;
  };
  const auto ended = watch({.title = "headgate " + invocation.command,
                            .interval = std::chrono::milliseconds(*invocation.watch_ms),
                            .source = std::move(chosen->source),
                            .draw = draw},
                           invocation.voice);
  return ended ? *ended : refuse(ended.error(), invocation.voice);
}

// Returns the newest events, which show how the share ended; `headgate events --share` has all of them.
Result<std::vector<snapshot::Event>> last_of(SnapshotSource& source, const std::string& share) {
  constexpr std::size_t kMost = 20;
  auto events = TRY(source.events_that({.share = share}));
  if (events.size() > kMost) events.erase(events.begin(), events.end() - kMost);
  return events;
}

int why_of(const Invocation& invocation, const config::Config& config, const NodeSnapshot& snapshot) {
  std::string asked = invocation.share;
  if (const auto* process = process_numbered(snapshot.now, asked)) {
    if (process->share.empty())
      return put(Shown{.text = why_not_held(snapshot, *process, invocation.voice)}, invocation.voice);
    asked = process->share;
  }
  std::vector<snapshot::Share> chosen;
  std::string names;
  for (const snapshot::Share& share : snapshot.now.shares) {
    const bool meant = share.name == asked;
    if (meant && !share.problem.empty()) return 1;  // the view has shown its problem
    if (share.devices.empty()) continue;
    if (asked.empty() || meant) chosen.push_back(share);
    names += (names.empty() ? "" : ", ") + share.name;
  }
  if (chosen.empty() && !asked.empty()) {
    if (snapshot.daemon) {
      auto chosen_source = choose_source(invocation, config);
      const auto told = chosen_source ? last_of(*chosen_source->source, asked)
                                      : Result<std::vector<snapshot::Event>>(std::unexpected(chosen_source.error()));
      if (!told) return refuse(told.error(), invocation.voice);
      if (!told->empty())
        return put(Shown{.text = why_gone(snapshot, asked, *told, invocation.voice)}, invocation.voice);
    }
    const bool number = asked.find_first_not_of("0123456789") == std::string::npos;
    return refuse({ErrorCode::not_found,
                   "there is no share '" + harmless(asked) + "'" +
                       (number ? ", and no process " + asked + " in a share or on a GPU here" : ""),
                   names.empty() ? "there are no shares" : "shares here: " + names},
                  invocation.voice);
  }
  return put(Shown{.text = invocation.voice.format == Format::json ? why_json(snapshot, chosen)
                                                                   : why_text(snapshot, chosen, invocation.voice)},
             invocation.voice);
}

}  // namespace

bool is_node_command(const std::string& word) {
  constexpr std::array<std::string_view, 5> kWords = {"status", "ps", "free", "gpu ls", "share ls"};
  return std::ranges::find(kWords, word) != kWords.end();
}

int node_command(const Invocation& invocation, const config::Config& config) {
  const auto view = view_of(invocation);
  if (!view) return refuse(view.error(), invocation.voice);
  if (invocation.watch_ms) return again(invocation, config, *view);
  const bool rates = invocation.command == "status" || invocation.command == "ps";
  const auto snapshot = look(invocation, config, rates);
  if (!snapshot) return refuse(snapshot.error(), invocation.voice);
  name_problems(*snapshot, invocation.voice);
  return put((*view)(*snapshot, invocation.voice, true), invocation.voice);
}

int why(const Invocation& invocation, const config::Config& config) {
  const auto snapshot = look(invocation, config, false, true);
  if (!snapshot) return refuse(snapshot.error(), invocation.voice);
  if (const auto nothing = nothing_to_show(snapshot->no_gpus, snapshot->now, "why"))
    return refuse(*nothing, invocation.voice);
  name_problems(*snapshot, invocation.voice);
  return why_of(invocation, config, *snapshot);
}

}  // namespace headgate::cli
