#include "demo/demo.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "base/now.hpp"
#include "base/whole_number.hpp"
#include "cli/term/frame.hpp"
#include "cli/term/screen.hpp"
#include "cli/view/names.hpp"
#include "cli/view/snapshot_source.hpp"
#include "demo/demo_node.hpp"
#include "demo/demo_report.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kEndPatience = milliseconds(2000);  // for a tenant to end after SIGTERM
constexpr auto kFramePause = milliseconds(200);
constexpr auto kLookPause = milliseconds(400);
constexpr FrameSize kPlainFrame{80, 24};

struct DemoOptions {
  unsigned seconds = kDefaultDemoS;
  bool once = false;
};

struct Player {
  DemoTenant tenant;
  DemoProgress progress{};
  std::uint64_t started_unix_ns = 0;
  std::uint64_t refusals = 0;  // from the daemon's snapshot
  std::optional<load::Child> child{};
  std::optional<LoadReport> report{};
};

class Demo {
 public:
  Demo(DemoNode node, const DemoOptions& own, const Voice& voice)
      : node_(std::move(node)),
        source_(daemon_source(node_.daemon())),
        style_{.colour = voice.colour, .ascii = voice.ascii || !speaks_utf8()},
        talks_(voice.format == Format::table) {
    state_.total_s = own.seconds;
    state_.node.daemon = true;
    state_.node.interval_ms = 1000;
    for (DemoTenant& tenant : demo_cast(own.seconds)) players_.push_back({.tenant = std::move(tenant)});
    if (talks_ && !own.once && can_draw(kSmallestDemo)) screen_ = std::make_unique<Screen>();
  }

  // Runs until all tenants have ended (returns 0) or a signal came (returns its number).
  Result<int> play() {
    for (const Player& player : players_) TRY(node_.make_share(player.tenant));
    const auto begin = Clock::now();
    const auto deadline = begin + milliseconds(static_cast<long>(state_.total_s * 1000)) + std::chrono::seconds(20);
    auto next_look = begin;
    for (;;) {
      state_.elapsed_s = std::chrono::duration<double>(Clock::now() - begin).count();
      if (const int signal = Interruptions::seen(); signal != 0) return signal;
      if (Clock::now() > deadline)
        return fail(ErrorCode::failed, "the demo's tenants did not end in time",
                    "the machine may be too busy; try again");
      TRY(step());
      if (Clock::now() >= next_look) {
        next_look += kLookPause;
        TRY(look());
      }
      if (screen_) screen_->show(render_demo(state_, screen_->size(), style_));
      if (std::ranges::all_of(players_, [](const Player& p) { return p.report.has_value(); })) return 0;
      std::this_thread::sleep_for(kFramePause);
    }
  }

  // Ends what still runs, and restores the terminal.
  void end() {
    screen_.reset();
    for (Player& player : players_)
      if (player.child) player.child->signal(SIGTERM);
    for (Player& player : players_)
      if (player.child) player.child->end(kEndPatience);
    node_.end();
  }

  // Returns one frame from when all six were working, for output without a live view.
  [[nodiscard]] std::string plain_frame() const {
    return shown_ ? render_demo(*shown_, kPlainFrame, {.colour = false, .ascii = style_.ascii}) + "\n\n" : "";
  }

  Result<std::vector<DemoMeasured>> measure() {
    const sim::Truth truth = TRY(sim::read_truth(node_.directory()));
    std::int64_t from_ns = 0, to_ns = std::numeric_limits<std::int64_t>::max();
    for (const Player& player : players_) {
      const bool works_throughout = player.tenant.role == DemoRole::trainer || player.tenant.role == DemoRole::server;
      if (!works_throughout) continue;
      from_ns = std::max(from_ns, player.report->started_ns);
      to_ns = std::min(to_ns, player.report->ended_ns);
    }
    std::vector<DemoMeasured> all;
    for (const Player& player : players_) all.push_back(measured(player, truth, from_ns, to_ns));
    return all;
  }

  [[nodiscard]] double measured_s() const { return measured_s_; }

 private:
  Result<void> step() {
    TRY(node_.check());
    for (Player& player : players_) {
      if (!player.progress.started && state_.elapsed_s >= player.tenant.starts_at_s) {
        player.progress.started = true;
        player.started_unix_ns = unix_now_ns();
        player.child.emplace(TRY(node_.start_tenant(player.tenant)));
        tell(player.tenant.name + " starts: " + player.tenant.does);
      }
      if (!player.child || player.child->running()) continue;
      const load::ChildEnd end = player.child->so_far();
      player.child.reset();
      if (end.status != 0)
        return fail(ErrorCode::failed, "tenant " + player.tenant.name + " ended with status " +
                                           std::to_string(end.status) + ": " + end.err);
      player.report = TRY(read_load_report(end.out));
      player.progress.ended = true;
    }
    return {};
  }

  Result<void> look() {
    auto snapshot = TRY(source_->look());
    auto events = TRY(source_->events_after(last_event_));
    for (const snapshot::Event& event : events) {
      last_event_ = std::max(last_event_, event.sequence);
      heed(event);
    }
    state_.node = observed(std::move(state_.node), std::move(snapshot), std::move(events));
    state_.lines.clear();
    bool all_at_work = true;
    for (Player& player : players_) {
      const auto* share = find_share(*state_.node.now, player.tenant.name);
      if (share != nullptr && !share->devices.empty())
        player.refusals = std::max(player.refusals, share->devices.front().refusals);
      state_.lines.push_back(
          {player.tenant.name, player.tenant.does, demo_story(player.tenant, player.progress, *state_.node.now)});
      all_at_work = all_at_work && player.progress.started && !player.progress.ended;
    }
    if (all_at_work) shown_ = state_;
    return {};
  }

  void heed(const snapshot::Event& event) {
    for (Player& player : players_) {
      const bool idle =
          player.tenant.role == DemoRole::notebook && event.kind == "share.idle" && event.share == player.tenant.name;
      const bool named = player.tenant.role == DemoRole::bypasser && event.kind == "audit.outside";
      if ((idle || named) && !player.progress.told_after_s && event.unix_ns > player.started_unix_ns)
        player.progress.told_after_s = static_cast<double>(event.unix_ns - player.started_unix_ns) * 1e-9;
      if (named) outside_.insert(event.pid);
    }
    if (event.severity != "info" || event.kind == "share.idle") tell(event.text);
  }

  void tell(const std::string& text) {
    if (screen_ || !talks_) return;
    print("SIMULATED " + fitted_right(decimal_text(state_.elapsed_s, 1), 5) + " s  " + text + "\n");
  }

  DemoMeasured measured(const Player& player, const sim::Truth& truth, std::int64_t from_ns, std::int64_t to_ns) {
    const DemoTenant& tenant = player.tenant;
    const LoadReport& report = *player.report;
    const HeldSpan held = held_by(truth, report.pids, from_ns, to_ns);
    measured_s_ = static_cast<double>(held.span_ns) * 1e-9;
    // Naming only counts if exactly the right processes were named.
    const bool counts = tenant.role != DemoRole::bypasser || std::ranges::equal(outside_, report.pids);
    return {.name = tenant.name,
            .role = tenant.role,
            .limit_bytes = tenant.limit_bytes,
            .asked_bytes = tenant.attempts_bytes,
            .takes_bytes = tenant.takes_bytes,
            .promised_percent = static_cast<double>(tenant.compute_percent),
            .ceiling_percent = static_cast<double>(tenant.ceiling_percent),
            .held_percent =
                held.span_ns == 0 ? 0 : 100.0 * static_cast<double>(held.held_ns) / static_cast<double>(held.span_ns),
            .peak_bytes = peak_bytes(truth, report.pids),
            .refusals = player.refusals,
            .given_bytes = report.attempt_given_bytes,
            .grow_refused = report.grow_refused,
            .grown_bytes = report.grown_bytes,
            .request_p50_ms = static_cast<double>(report.request_p50_ns) * 1e-6,
            .request_p99_ms = static_cast<double>(report.request_p99_ns) * 1e-6,
            .told_after_s = counts ? player.progress.told_after_s : std::nullopt};
  }

  DemoNode node_;  // outlives the tenants
  std::unique_ptr<SnapshotSource> source_;
  const FrameStyle style_;
  const bool talks_;
  std::vector<Player> players_;
  DemoState state_;
  std::optional<DemoState> shown_;
  std::uint64_t last_event_ = 0;
  std::set<std::uint32_t> outside_;  // PIDs that the audit named
  double measured_s_ = 0;
  std::unique_ptr<Screen> screen_;
};

std::string to_json(const std::vector<DemoMeasured>& all, double measured_s, bool kept) {
  nlohmann::ordered_json json{
      {"schema", "headgate.demo/v2"}, {"simulated", true}, {"measured_seconds", measured_s}, {"kept", kept}};
  for (const DemoMeasured& m : all) {
    nlohmann::ordered_json one{{"tenant", m.name}, {"kept", demo_verdict(m).kept}};
    one["promised_ratio"] = m.promised_percent / 100;
    one["ceiling_ratio"] = m.ceiling_percent / 100;
    one["held_ratio"] = m.held_percent / 100;
    one["memory_limit_bytes"] = m.limit_bytes;
    one["memory_peak_bytes"] = m.peak_bytes;
    one["refusals"] = m.refusals;
    if (m.told_after_s) one["told_after_seconds"] = *m.told_after_s;
    if (m.request_p99_ms > 0) one["request_p99_seconds"] = m.request_p99_ms * 1e-3;
    json["tenants"].push_back(std::move(one));
  }
  return json.dump() + "\n";
}

// The next steps after the demo, for a new user.
constexpr const char* kWhatNow =
    "\nNext:\n"
    "  headgate run --sim --mem 8GiB --compute 50% -- COMMAND   a program of yours in a share of a simulated GPU\n"
    "  headgate doctor                                          what this machine lacks for a GPU\n"
    "  headgate --help                                          all commands\n";

Result<int> run_demo(const cli::Call& call, const DemoOptions& own) {
  const Interruptions interruptions;
  Demo play(TRY(DemoNode::start()), own, call.voice);
  const auto played = play.play();
  play.end();
  if (const int signal = TRY(played); signal != 0) return 128 + signal;
  const std::vector<DemoMeasured> measured = TRY(play.measure());
  std::vector<DemoVerdict> verdicts;
  for (const DemoMeasured& one : measured) verdicts.push_back(demo_verdict(one));
  const bool kept = std::ranges::all_of(verdicts, &DemoVerdict::kept);
  if (call.voice.format == Format::json) print(to_json(measured, play.measured_s(), kept));
  else print(play.plain_frame() + render_verdicts(verdicts, play.measured_s()) + kWhatNow);
  return kept ? 0 : 1;
}

void add_demo_options(cli::Options& options, DemoOptions& own) {
  options.add({.names = "--seconds",
               .type = "N",
               .summary = "length: 12 to 120 (17)",
               .store = [&own](const std::vector<std::string>& values) -> Result<void> {
                 const auto seconds = whole_number<unsigned>(values.front());
                 if (!seconds || *seconds < kShortestDemoS || *seconds > kLongestDemoS)
                   return fail(ErrorCode::usage,
                               "headgate demo does not know '--seconds=" + harmless(values.front()) + "'",
                               "it accepts --seconds=N, N from " + std::to_string(kShortestDemoS) + " to " +
                                   std::to_string(kLongestDemoS));
                 own.seconds = *seconds;
                 return {};
               }});
  options.flag("--once", "print line by line, and one table at the end", own.once);
}

}  // namespace

cli::Command demo_command() {
  return cli::command<DemoOptions>(cli::kStart, "demo",
                                   "show headgated and six tenants on a simulated GPU, live, in about 17 s",
                                   add_demo_options, run_demo, cli::Reads::nothing);
}

}  // namespace headgate::demo
