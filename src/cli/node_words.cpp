#include "cli/node_words.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <string_view>
#include <thread>

#include "cli/chosen_source.hpp"
#include "cli/daemon.hpp"
#include "cli/names.hpp"
#include "cli/records.hpp"
#include "cli/views.hpp"
#include "cli/watch.hpp"
#include "cli/wish.hpp"

namespace headgate::cli {
namespace {

int refuse(const Error& error, const Voice& voice) {
  complain(error, voice);
  return exit_status(error.code);
}

// A view of one picture: what goes to stdout, and what is said beside it.
struct Shown {
  std::string text = {};
  std::optional<Error> trouble = {};
  int status = 0;  // where there is no trouble
};
// `heading`: whether CSV begins with the names of its columns.
using View = std::function<Result<Shown>(const Picture& picture, const Voice& voice, bool heading)>;

std::string lines(const Records& records, const Picture& picture, const Voice& voice, bool heading) {
  const Origin origin = origin_of(picture.now);
  return voice.format == Format::csv ? csv(records, origin, heading) : jsonl(records, origin);
}

Result<Shown> status_view(const Picture& picture, const Voice& voice, bool heading) {
  Shown shown;
  if (!picture.no_gpus.empty() && picture.now.shares.empty()) {
    shown.trouble = {ErrorCode::unreachable, picture.no_gpus,
                     "'headgate status --sim' looks at a simulated GPU, 'headgate demo' shows one at work"};
    if (voice.format != Format::json) return std::unexpected(*shown.trouble);
  }
  const Records shares = records_of("headgate.share/v1", picture.now.shares);
  switch (voice.format) {
    case Format::json: shown.text = status_json(picture); break;
    case Format::jsonl:
      shown.text = lines(records_of("headgate.gpu/v1", picture.now.gpus), picture, voice, heading) +
                   lines(shares, picture, voice, heading);
      break;
    case Format::csv: shown.text = lines(shares, picture, voice, heading); break;
    default: shown.text = status_text(picture, voice);
  }
  return shown;
}

Result<Shown> ps_view(Picture picture, const Invocation& invocation, const Voice& voice, bool heading) {
  std::vector<std::string> uuids;
  if (!invocation.gpu.empty()) {
    const snapshot::Node& node = picture.now.node;
    const auto chosen =
        TRY(choose_gpus("--gpu", invocation.gpu, {picture.now.gpus, node.driver_version, node.simulated}));
    for (const std::size_t index : chosen) uuids.push_back(picture.now.gpus[index].uuid);
  }
  picture.now = narrowed(std::move(picture.now), invocation.user, uuids);
  // A name that is spelled wrongly has none either: that nobody is in a share would be untrue.
  if (is_table(voice.format) && picture.now.processes.empty() && !(invocation.user + invocation.gpu).empty())
    return Shown{.text = stamp(picture.now, voice) + "no process" +
                         (invocation.user.empty() ? "" : " of the user " + harmless(invocation.user)) +
                         " is in a share or on a GPU" +
                         (invocation.gpu.empty() ? "" : " of --gpu " + harmless(invocation.gpu)) + "\n"};
  if (is_table(voice.format)) return Shown{.text = ps_text(picture, voice)};
  if (voice.format == Format::json) return Shown{.text = ps_json(picture)};
  return Shown{.text = lines(records_of("headgate.process/v1", picture.now.processes), picture, voice, heading)};
}

Result<Shown> free_view(const Picture& picture, const std::optional<Fit>& fit, const Voice& voice, bool heading) {
  if (!picture.no_gpus.empty())
    return fail(ErrorCode::unreachable, picture.no_gpus, "'headgate free --sim' looks at a simulated node");
  const auto all = rooms(picture, fit);
  Shown shown;
  if (is_table(voice.format)) shown.text = free_text(picture, all, fit, voice);
  else if (voice.format == Format::json) shown.text = free_json(picture, all, fit);
  else shown.text = lines(free_records(all, fit), picture, voice, heading);
  if (fit && std::ranges::none_of(all, &Room::fits)) shown.status = exit_status(ErrorCode::no_capacity);
  return shown;
}

Result<Shown> gpus_view(const Picture& picture, const Voice& voice, bool heading) {
  if (!picture.no_gpus.empty())
    return fail(ErrorCode::unreachable, picture.no_gpus, "'headgate gpu ls --sim' looks at a simulated node");
  if (is_table(voice.format)) return Shown{.text = gpus_text(picture, voice)};
  if (voice.format == Format::json) return Shown{.text = gpus_json(picture)};
  return Shown{.text = lines(records_of("headgate.gpu/v1", picture.now.gpus), picture, voice, heading)};
}

Result<Shown> shares_view(const Picture& picture, const Voice& voice, bool heading) {
  if (is_table(voice.format)) {
    return Shown{.text = stamp(picture.now, voice) + shares_text(picture.now.shares, picture.now, voice) +
                         waiting_text(picture.now, voice)};
  }
  if (voice.format == Format::json)
    return Shown{.text = enclosed("headgate.shares/v1", "shares", snapshot::to_json(picture.now.shares), picture.now)};
  return Shown{.text = lines(records_of("headgate.share/v1", picture.now.shares), picture, voice, heading)};
}

// What is asked for, read before anything is looked at.
Result<View> view_of(const Invocation& invocation) {
  const std::string& word = invocation.word;
  if (word == "ps")
    return [&invocation](const Picture& picture, const Voice& voice, bool heading) {
      return ps_view(picture, invocation, voice, heading);
    };
  if (word == "gpu ls") return gpus_view;
  if (word == "share ls") return shares_view;
  if (word != "free") return status_view;
  std::optional<Fit> fit;
  if (!invocation.fit.empty()) fit = TRY(parse_fit(invocation.fit));
  return [fit](const Picture& picture, const Voice& voice, bool heading) {
    return free_view(picture, fit, voice, heading);
  };
}

// The daemon's picture where one runs, unless a simulated node of one's own was asked for. Only the daemon keeps shares
// that can be listed.
Result<Chosen> source_of(const Invocation& invocation, const config::Config& config) {
  if (invocation.word != "share ls") return choose_source(invocation, config);
  const http::Endpoint daemon = TRY(need_daemon());
  return Chosen{daemon_source(daemon), daemon};
}

// What `why` tells of the last day.
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

// One look, or two where there is no daemon, rates are wanted and something runs.
Result<Picture> look(const Invocation& invocation, const config::Config& config, bool rates, bool events = false) {
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
  Picture picture{std::move(now), no_gpus, daemon};
  if (events) picture.events = TRY(told_before(*chosen.source, picture.now.taken_unix_ns));
  return picture;
}

void name_problems(const Picture& picture, const Voice& voice) {
  for (const auto& share : picture.now.shares) {
    if (!share.problem.empty()) complain({ErrorCode::failed, share.problem, {}}, voice);
  }
}

// What there is to print of it; the exit status.
int put(const Result<Shown>& shown, const Voice& voice) {
  if (!shown) return refuse(shown.error(), voice);
  if (shown->trouble) complain(*shown->trouble, voice);
  if (!print(shown->text)) return refuse({ErrorCode::failed, "cannot write to standard output", {}}, voice);
  return shown->trouble ? exit_status(shown->trouble->code) : shown->status;
}

// The view of one source again and again; the exit status.
int again(const Invocation& invocation, const config::Config& config, const View& view) {
  auto chosen = source_of(invocation, config);
  if (!chosen) return refuse(chosen.error(), invocation.voice);
  if (chosen->silence) complain(*chosen->silence, invocation.voice);
  const bool daemon = chosen->daemon.has_value();
  const auto draw = [&](const Look& look, const Voice& voice, bool heading) -> Result<std::string> {
    if (!look.picture) return std::unexpected(look.picture.error());
    // A daemon's picture lacks nothing; what may remark of it is about events, which are not shown.
    const Picture picture{*look.picture, daemon ? "" : look.remark, daemon};
    if (invocation.simulate && !picture.no_gpus.empty()) return fail(ErrorCode::unreachable, picture.no_gpus);
    return TRY(view(picture, voice, heading)).text;
  };
  const auto ended = watch({.title = "headgate " + invocation.word,
                            .interval = std::chrono::milliseconds(*invocation.watch_ms),
                            .source = std::move(chosen->source),
                            .draw = draw},
                           invocation.voice);
  return ended ? *ended : refuse(ended.error(), invocation.voice);
}

// The newest, which say how it ended; all of them are for `headgate events --share`.
Result<std::vector<snapshot::Event>> last_of(SnapshotSource& source, const std::string& share) {
  constexpr std::size_t kMost = 20;
  auto events = TRY(source.events_that({.share = share}));
  if (events.size() > kMost) events.erase(events.begin(), events.end() - kMost);
  return events;
}

int why_of(const Invocation& invocation, const config::Config& config, const Picture& picture) {
  std::string asked = invocation.share;
  if (const auto* process = process_numbered(picture.now, asked)) {
    if (process->share.empty())
      return put(Shown{.text = why_not_held(picture, *process, invocation.voice)}, invocation.voice);
    asked = process->share;
  }
  std::vector<snapshot::Share> chosen;
  std::string names;
  for (const snapshot::Share& share : picture.now.shares) {
    const bool meant = share.name == asked;
    if (meant && !share.problem.empty()) return 1;  // its problem has been said
    if (share.devices.empty()) continue;
    if (asked.empty() || meant) chosen.push_back(share);
    names += (names.empty() ? "" : ", ") + share.name;
  }
  if (chosen.empty() && !asked.empty()) {
    if (picture.daemon) {
      auto chosen_source = choose_source(invocation, config);
      const auto told = chosen_source ? last_of(*chosen_source->source, asked)
                                      : Result<std::vector<snapshot::Event>>(std::unexpected(chosen_source.error()));
      if (!told) return refuse(told.error(), invocation.voice);
      if (!told->empty())
        return put(Shown{.text = why_gone(picture, asked, *told, invocation.voice)}, invocation.voice);
    }
    const bool number = asked.find_first_not_of("0123456789") == std::string::npos;
    return refuse({ErrorCode::not_found,
                   "there is no share '" + harmless(asked) + "'" +
                       (number ? ", and no process " + asked + " in a share or on a GPU here" : ""),
                   names.empty() ? "there are no shares" : "shares here: " + names},
                  invocation.voice);
  }
  return put(Shown{.text = invocation.voice.format == Format::json ? why_json(picture, chosen)
                                                                   : why_text(picture, chosen, invocation.voice)},
             invocation.voice);
}

}  // namespace

bool is_node_word(const std::string& word) {
  constexpr std::array<std::string_view, 5> kWords = {"status", "ps", "free", "gpu ls", "share ls"};
  return std::ranges::find(kWords, word) != kWords.end();
}

int node_word(const Invocation& invocation, const config::Config& config) {
  const auto view = view_of(invocation);
  if (!view) return refuse(view.error(), invocation.voice);
  if (invocation.watch_ms) return again(invocation, config, *view);
  const bool rates = invocation.word == "status" || invocation.word == "ps";
  const auto picture = look(invocation, config, rates);
  if (!picture) return refuse(picture.error(), invocation.voice);
  name_problems(*picture, invocation.voice);
  return put((*view)(*picture, invocation.voice, true), invocation.voice);
}

int why(const Invocation& invocation, const config::Config& config) {
  const auto picture = look(invocation, config, false, true);
  if (!picture) return refuse(picture.error(), invocation.voice);
  name_problems(*picture, invocation.voice);
  return why_of(invocation, config, *picture);
}

}  // namespace headgate::cli
