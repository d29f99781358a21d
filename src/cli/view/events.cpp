
#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <iterator>
#include <map>
#include <thread>

#include "base/now.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/term/frame.hpp"
#include "cli/term/records.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Events = std::vector<snapshot::Event>;

constexpr std::size_t kTail = 10;  // for -f alone, like tail

std::string day_of(std::uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  std::array<char, 16> text{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

// What the options ask for.
EventChoice choice_of(const EventsOptions& own) {
  const std::uint64_t now = unix_now_ns();
  return {.since_unix_ns = own.since_ns && *own.since_ns < now ? now - *own.since_ns : 0,
          .share = own.share,
          .kind = own.kind};
}

std::string severity_cell(const snapshot::Event& event, const Voice& voice) {
  const std::string severity = fitted(harmless(event.severity), 5);
  return event.severity == "info" ? severity : warning(severity, voice);
}

// Adds date, share and kind in columns of a fixed width, which later events do not change.
std::string wide_line(const snapshot::Event& event, const Voice& voice) {
  return day_of(event.unix_ns) + " " + clock_text(event.unix_ns) + "  " + severity_cell(event, voice) + "  " +
         fitted(harmless(event.kind), 17) + "  " + fitted(harmless(or_dash(event.share), voice), 16) + "  " +
         fitted_right(event.pid == 0 ? "-" : std::to_string(event.pid), 7) + "  " +
         fitted(harmless(or_dash(event.uuid)), 12) + "  " + harmless(event.text, voice) + "\n";
}

// A misspelt name finds nothing either; it must not look like a quiet night.
std::string none_text(const EventsOptions& own, const Events& known) {
  std::string text = "no events";
  if (!own.share.empty()) text += " of a share '" + harmless(own.share) + "'";
  if (!own.kind.empty()) text += " of kind '" + harmless(own.kind) + "'";
  if (own.share.empty() && own.kind.empty()) return text + "\n";
  std::vector<std::string> there;
  for (const auto& event : known) {
    const std::string& word = own.kind.empty() ? event.share : event.kind;
    if (!word.empty() && std::ranges::find(there, word) == there.end()) there.push_back(word);
  }
  std::ranges::sort(there);
  return text + (there.empty() ? "" : "; lately there were: " + harmless(joined(there, ", "))) + "\n";
}

// Prints the requested events as they come; returns false when output is closed.
class Teller {
 public:
  Teller(EventChoice asked, const Voice& voice, const snapshot::Node& node)
      : asked_{.share = std::move(asked.share), .kind = std::move(asked.kind)},
        voice_(voice),
        origin_{node.name, node.simulated, std::nullopt} {}

  // Prints what precedes the first event.
  Result<void> begin(const snapshot::Snapshot& snapshot) {
    if (is_table(voice_.format)) TRY(show(stamp(snapshot, voice_)));
    if (voice_.format == Format::csv) TRY(show(lines(records_of("", Events{}), origin_, voice_, true)));
    return {};
  }
  bool tell(const snapshot::Event& event) {
    last_unix_ns_ = std::max(last_unix_ns_, event.unix_ns);
    last_sequence_ = event.sequence;
    return !asked_.fits(event) || print(line_of(event));
  }
  bool tell(const Events& events) {
    return std::ranges::all_of(events, [this](const auto& event) { return tell(event); });
  }
  [[nodiscard]] std::uint64_t last_sequence() const { return last_sequence_; }
  void passed_over(const Events& events) {
    if (!events.empty()) last_sequence_ = std::max(last_sequence_, events.back().sequence);
  }
  // For a daemon that restarted its numbering, the time decides whether an event is new.
  [[nodiscard]] bool is_news(const snapshot::Event& event) const { return event.unix_ns > last_unix_ns_; }

 private:
  std::string line_of(const snapshot::Event& event) const {
    switch (voice_.format) {
      case Format::json:
      case Format::jsonl: return jsonl(records_of("headgate.event/v1", Events{event}), origin_);
      case Format::csv: return csv(records_of("", Events{event}), origin_, false, voice_.columns_of_csv);
      case Format::wide: return wide_line(event, voice_);
      default: return event_line(event, unix_now_ns(), voice_);
    }
  }

  const EventChoice asked_;
  const Voice& voice_;
  const Origin origin_;
  std::uint64_t last_unix_ns_ = 0, last_sequence_ = 0;
};

// Runs until output is closed. Says when it waits for the daemon, because silence would look like no events.
void follow_daemon(const http::Endpoint& daemon, SnapshotSource& source, Teller& teller, const Voice& voice) {
  std::uint64_t after = teller.last_sequence();
  bool alive = true, heard = true;
  while (heard) {
    const auto ended = follow_events(daemon, after, [&](const snapshot::Event& event) {
      alive = true;
      heard = teller.tell(event);
      return heard;
    });
    if (!heard) return;
    if (std::exchange(alive, false) && !voice.quiet)
      say((ended ? "headgated has ended" : "headgated does not answer: " + ended.error().message) +
          "; waiting for it, headgate doctor says more");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    // Catch up; a daemon with another state directory starts its numbering over.
    if (const auto all = source.events_after(0)) {
      if (!std::exchange(alive, true) && !voice.quiet) say("headgated answers again");
      for (const auto& event : *all)
        if (heard && teller.is_news(event)) heard = teller.tell(event);
      after = all->empty() ? 0 : all->back().sequence;
    }
  }
}

// Runs until output is closed.
Result<void> follow_local(SnapshotSource& source, Teller& teller, std::uint64_t interval_ms) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(interval_ms));
    TRY(source.look());
    if (!teller.tell(TRY(source.events_after(teller.last_sequence())))) return {};
  }
}

Result<int> events(const Call& call, const EventsOptions& own) {
  const Voice& voice = call.voice;
  Chosen chosen = TRY(choose_source(call));
  if (chosen.silence) return std::unexpected(*chosen.silence);  // only that daemon knows its events
  const auto snapshot = TRY(chosen.source->look());
  if (auto nothing = nothing_to_show(chosen.daemon ? "" : chosen.source->remark(), snapshot, "events"))
    return std::unexpected(*std::move(nothing));
  const EventChoice choice = choice_of(own);
  // A query by time, share or kind: the daemon keeps more of what it chooses than in its plain list.
  Events past;
  if (choice.chooses()) past = TRY(chosen.source->events_that(choice));
  const Events recent = TRY(chosen.source->events_after(0));  // read after `past`, so that no event falls between
  Events wanted = past;
  std::ranges::copy_if(recent, std::back_inserter(wanted),
                       [&](const auto& event) { return past.empty() || event.sequence > past.back().sequence; });
  std::erase_if(wanted, [&](const auto& event) { return !choice.fits(event); });
  if (own.follow && !own.since_ns && wanted.size() > kTail) wanted.erase(wanted.begin(), wanted.end() - kTail);
  if (voice.format == Format::table && !own.all && !own.follow) wanted = folded(wanted);
  if (voice.format == Format::json && !own.follow)
    return show(enclosed_text("headgate.events/v1", "events", snapshot::to_json(wanted), snapshot));
  Teller teller(choice, voice, snapshot.node);
  TRY(teller.begin(snapshot));
  teller.passed_over(recent);
  teller.passed_over(past);
  if (!teller.tell(wanted)) return 1;
  if (!own.follow) return wanted.empty() && is_table(voice.format) && !print(none_text(own, recent)) ? 1 : 0;
  if (chosen.daemon) follow_daemon(*chosen.daemon, *chosen.source, teller, voice);
  else TRY(follow_local(*chosen.source, teller, call.interval_ms.value_or(1000)));
  return 0;
}

}  // namespace

void add_events_options(Options& options, EventsOptions& own) {
  options.simulated();
  options.flag("-f,--follow", "keep printing new events until Ctrl-C", own.follow);
  options.flag("--all", "each start and end of a program; without it, those of a minute are one line", own.all);
  options.value("--since", "TIME", "only events of the last: 30s, 5m, 1h, 2d",
                [&own](const std::string& text) -> Result<void> {
                  own.since_ns = TRY(time_option("--since", text));
                  return {};
                });
  options.text("--share", "NAME", "only events of this share", own.share).completes = ":share";
  options.text("--kind", "KIND", "only kinds that begin with this: memory, share.created, audit, gpu", own.kind);
  options.interval("time between refreshes", "1s");
  options.lists();
}

std::vector<snapshot::Event> folded(const std::vector<snapshot::Event>& all) {
  struct Runs {
    unsigned started = 0, ended = 0;
    std::size_t last = 0;
  };
  constexpr std::uint64_t kMinuteNs = 60'000'000'000;
  std::map<std::pair<std::string, std::uint64_t>, Runs> minutes;
  const auto runs_of = [&](const snapshot::Event& event) -> Runs* {
    const bool starts = event.kind == "process.joined" || event.kind == "process.started";
    const bool ends = event.kind == "process.left" || event.kind == "process.ended";
    return starts || ends ? &minutes[{event.share, event.unix_ns / kMinuteNs}] : nullptr;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (Runs* runs = runs_of(all[i])) {
      ++(all[i].kind.ends_with("left") || all[i].kind.ends_with("ended") ? runs->ended : runs->started);
      runs->last = i;
    }
  }
  std::vector<snapshot::Event> shown;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Runs* runs = runs_of(all[i]);
    const bool few = runs == nullptr || runs->started + runs->ended < 3;
    if (!few && runs->last != i) continue;
    shown.push_back(all[i]);
    if (few) continue;
    const std::string where = " in " + all[i].share;
    const auto count = [](unsigned n) { return std::to_string(n) + (n == 1 ? " run" : " runs"); };
    shown.back().text =
        runs->started == 0
            ? count(runs->ended) + " ended" + where
            : count(runs->started) + where + (runs->ended == 0 ? "" : ", " + std::to_string(runs->ended) + " ended");
  }
  return shown;
}

std::string event_line(const snapshot::Event& event, std::uint64_t now_unix_ns, const Voice& voice) {
  const std::string day = day_of(event.unix_ns);
  const std::string when = (day == day_of(now_unix_ns) ? "" : day + " ") + clock_text(event.unix_ns);
  return when + "  " + severity_cell(event, voice) + "  " + harmless(event.text, voice) + "\n";
}

Commands events_commands() {
  return {command<EventsOptions>(kLook, "events", "list what happened on the node", add_events_options, events)};
}

}  // namespace headgate::cli
