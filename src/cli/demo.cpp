#include "cli/demo.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "cli/demo_picture.hpp"
#include "cli/own_ledgers.hpp"
#include "cli/screen.hpp"
#include "cli/tenants.hpp"

namespace headgate::cli {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr double kAllowedPoints = 1.0;
constexpr auto kPatience = milliseconds(2000);  // with a tenant that is asked to end
constexpr auto kFramePause = milliseconds(200);

struct Tenant {
  DemoShare shown;
  TenantSpec spec;
  double starts_at_s = 0;
  bool judged = true;  // it has work all the time: its GPU time is held against what was asked
  std::uint64_t takes_bytes = 0, attempts_bytes = 0;
  std::optional<load::Child> child;
  std::set<std::uint32_t> pids;  // as its share's pages named them
  std::uint64_t refusals = 0;
  std::optional<LoadReport> report;
};

std::string seconds_word(const char* option, double seconds) {
  return std::string(option) + std::to_string(static_cast<long>(seconds * 1000)) + "ms";
}

Tenant tenant(const char* name, const char* work, unsigned percent, unsigned limit_gib, unsigned takes_gib,
              double starts_at_s, double lasts_s) {
  Tenant result;
  result.shown = {.name = name, .work = work, .asked_ppm = percent * 10'000, .memory_limit_bytes = limit_gib * kGiB};
  result.takes_bytes = takes_gib * kGiB;
  result.starts_at_s = starts_at_s;
  result.spec.share = name;
  result.spec.run_words = {"--gpu=0", "--mem=" + std::to_string(limit_gib) + "GiB",
                           "--compute=" + std::to_string(percent) + "%"};
  result.spec.load_words = {"--mem=" + std::to_string(takes_gib) + "GiB", seconds_word("--duration=", lasts_s),
                            "--no-idle-list"};
  return result;
}

std::vector<Tenant> cast(double total_s) {
  std::vector<Tenant> tenants;
  tenants.push_back(tenant("trainer", "200 us kernels", 25, 16, 4, 0, total_s - 2));
  tenants.back().spec.load_words.push_back("--kernels=200us");
  tenants.push_back(tenant("server", "20 us to 2 ms", 50, 32, 20, 0, total_s - 2));
  tenants.back().spec.load_words.push_back("--kernels=lognormal:200us,0.8,seed=7");
  tenants.push_back(tenant("greedy", "wants 10 GiB", 10, 8, 6, total_s * 0.3, total_s * 0.4));
  Tenant& greedy = tenants.back();
  greedy.judged = false;
  greedy.attempts_bytes = 4 * kGiB;
  greedy.spec.load_words.insert(greedy.spec.load_words.end(), {"--attempt=4GiB", "--no-launches"});
  return tenants;
}

class Demo {
 public:
  Demo(PrivateNode node, double total_s) : node_(std::move(node)), tenants_(cast(total_s)) { state_.total_s = total_s; }

  // Until all tenants have ended or a signal came.
  Result<bool> play(const Voice& voice) {
    const Interruptions interruptions;
    std::unique_ptr<Screen> screen;
    if (voice.format == Format::table && can_draw(kSmallestFrame)) {
      screen = std::make_unique<Screen>();
    }
    const auto begin = Clock::now();
    const auto deadline = begin + milliseconds(static_cast<long>(state_.total_s * 1000)) + std::chrono::seconds(20);
    long last_line = -1;
    for (;;) {
      state_.elapsed_s = std::chrono::duration<double>(Clock::now() - begin).count();
      if (Interruptions::seen() != 0) {
        for (Tenant& each : tenants_) {
          if (each.child) each.child->end(kPatience);
        }
        return false;
      }
      if (Clock::now() > deadline) {
        return std::unexpected(Error{ErrorCode::failed, "the demo's tenants did not end in time",
                                     "the machine may be too busy; try again"});
      }
      if (auto stepped = step(); !stepped) {
        return std::unexpected(stepped.error());
      }
      if (screen != nullptr) {
        screen->show(render(state_, screen->size(), {.colour = voice.colour, .ascii = voice.ascii}));
      } else if (voice.format == Format::table && static_cast<long>(state_.elapsed_s) != last_line) {
        last_line = static_cast<long>(state_.elapsed_s);
        print_lines();
      }
      if (std::ranges::all_of(tenants_, [](const Tenant& t) { return t.report.has_value(); })) {
        return true;
      }
      std::this_thread::sleep_for(kFramePause);
    }
  }

  Result<std::vector<DemoVerdict>> judge() {
    const sim::Truth truth = TRY(sim::read_truth(node_.node()));
    std::int64_t from_ns = 0, to_ns = std::numeric_limits<std::int64_t>::max();
    for (const Tenant& each : tenants_) {
      if (each.judged) {
        from_ns = std::max(from_ns, each.report->started_ns);
        to_ns = std::min(to_ns, each.report->ended_ns);
      }
    }
    std::vector<DemoVerdict> verdicts;
    for (const Tenant& each : tenants_) {
      DemoVerdict verdict{.share = each.shown.name, .memory_limit_bytes = each.shown.memory_limit_bytes};
      verdict.memory_asked_bytes = each.takes_bytes + each.attempts_bytes;
      verdict.memory_got_bytes = peak_bytes(truth, each.pids);
      // To the byte: what it may have it got, and of what goes beyond nothing.
      verdict.kept = verdict.memory_got_bytes == each.takes_bytes && each.report->attempt_given_bytes == 0 &&
                     (each.attempts_bytes == 0 || each.refusals > 0);
      if (each.judged) {
        const HeldSpan held = held_by(truth, each.pids, from_ns, to_ns);
        measured_s_ = static_cast<double>(held.span_ns) * 1e-9;
        verdict.compute_judged = true;
        verdict.asked_percent = each.shown.asked_ppm * 1e-4;
        verdict.got_percent =
            held.span_ns == 0 ? 0 : 100.0 * static_cast<double>(held.held_ns) / static_cast<double>(held.span_ns);
        verdict.kept = verdict.kept && std::abs(verdict.got_percent - verdict.asked_percent) <= kAllowedPoints;
      }
      verdicts.push_back(verdict);
    }
    return verdicts;
  }

  [[nodiscard]] double measured_s() const { return measured_s_; }

 private:
  Result<bool> step() {
    for (Tenant& each : tenants_) {
      if (!each.child && !each.report && state_.elapsed_s >= each.starts_at_s) {
        each.child.emplace(TRY(start_tenant(node_, each.spec, "")));
        event(each.shown.name + " starts: " + std::to_string(each.shown.asked_ppm / 10'000) + " %, " +
              bytes_text(each.shown.memory_limit_bytes));
      }
      if (each.child && !each.child->running()) {
        const load::ChildEnd end = each.child->so_far();
        each.child.reset();
        if (end.status != 0) {
          return std::unexpected(Error{
              ErrorCode::failed,
              "tenant " + each.shown.name + " ended with status " + std::to_string(end.status) + ": " + end.err, ""});
        }
        each.report = TRY(read_load_report(end.out));
        each.shown.running = false;
        event(each.shown.name + " is done");
      }
    }
    look_at_shares();
    return look_at_truth();
  }

  void look_at_shares() {
    const OwnLedgers ledgers = read_own_ledgers(node_.runtime());
    for (Tenant& each : tenants_) {
      const auto found = std::ranges::find_if(
          ledgers.list, [&](const observe::LedgerPicture& ledger) { return ledger.share.name == each.shown.name; });
      if (found == ledgers.list.end() || found->share.devices.empty()) {
        each.shown.memory_used_bytes = 0;
        continue;
      }
      for (const observe::Seat& seat : found->seats) {
        each.pids.insert(seat.identity.pid);
      }
      each.shown.running = !found->seats.empty();
      const snapshot::ShareDevice& device = found->share.devices.front();
      each.shown.memory_used_bytes = device.memory_used_bytes;
      if (device.refusals > each.refusals) {
        each.refusals = device.refusals;
        event(each.shown.name + " asked for " + bytes_text(device.last_refusal->asked_bytes) + " more: refused (" +
              bytes_text(device.last_refusal->used_bytes) + " of " + bytes_text(each.shown.memory_limit_bytes) +
              " in use)");
      }
    }
  }

  Result<bool> look_at_truth() {
    const auto truth = sim::read_truth(node_.node());
    if (!truth) {
      return true;  // nobody has opened the node yet
    }
    if (!truth->devices.empty()) {
      state_.gpu = truth->devices[0].model + ", " + bytes_text(truth->devices[0].memory_bytes);
    }
    const auto now = static_cast<std::int64_t>(truth->now_ns);
    state_.shares.clear();
    for (Tenant& each : tenants_) {
      const HeldSpan held = held_by(*truth, each.pids, now - 1'000'000'000, now);
      each.shown.got_ppm =
          held.span_ns == 0
              ? 0
              : static_cast<std::uint32_t>(1e6 * static_cast<double>(held.held_ns) / static_cast<double>(held.span_ns));
      state_.shares.push_back(each.shown);
    }
    return true;
  }

  void event(const std::string& text) {
    char when[32];
    std::snprintf(when, sizeof when, "+%.1f s  ", state_.elapsed_s);
    state_.events.push_back(when + text);
  }

  void print_lines() {
    for (; printed_events_ < state_.events.size(); ++printed_events_) {
      print("SIMULATED " + state_.events[printed_events_] + "\n");
    }
    if (!state_.shares.empty()) {
      print(render_line(state_) + "\n");
    }
    std::fflush(stdout);
  }

  PrivateNode node_;
  std::vector<Tenant> tenants_;
  DemoState state_;
  std::size_t printed_events_ = 0;
  double measured_s_ = 0;
};

Result<double> read_words(std::span<const std::string> words) {
  double seconds = 15;
  for (const std::string& word : words) {
    constexpr std::string_view kSeconds = "--seconds=";
    const std::string_view value =
        word.starts_with(kSeconds) ? std::string_view(word).substr(kSeconds.size()) : std::string_view();
    unsigned whole = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), whole);
    if (value.empty() || error != std::errc{} || end != value.data() + value.size() || whole < 5 || whole > 55) {
      return fail(ErrorCode::usage, "headgate demo does not know '" + word + "'",
                  "it accepts --seconds=N, N from 5 to 55, and the output options");
    }
    seconds = whole;
  }
  return seconds;
}

std::string to_json(const std::vector<DemoVerdict>& verdicts, double measured_s, bool kept) {
  nlohmann::ordered_json json{
      {"schema", "headgate.demo/v1"}, {"simulated", true}, {"measured_seconds", measured_s}, {"kept", kept}};
  for (const DemoVerdict& verdict : verdicts) {
    nlohmann::ordered_json share{{"share", verdict.share}, {"kept", verdict.kept}};
    if (verdict.compute_judged) {
      share["asked_ratio"] = verdict.asked_percent / 100;
      share["got_ratio"] = verdict.got_percent / 100;
    }
    share["memory_limit_bytes"] = verdict.memory_limit_bytes;
    share["memory_asked_bytes"] = verdict.memory_asked_bytes;
    share["memory_peak_bytes"] = verdict.memory_got_bytes;
    json["shares"].push_back(share);
  }
  return json.dump() + "\n";
}

}  // namespace

int demo(const Voice& voice, std::span<const std::string> words) {
  const auto run = [&]() -> Result<int> {
    const double seconds = TRY(read_words(words));
    Demo play(TRY(PrivateNode::make()), seconds);
    if (!TRY(play.play(voice))) {
      return 130;
    }
    const std::vector<DemoVerdict> verdicts = TRY(play.judge());
    const bool kept = std::ranges::all_of(verdicts, &DemoVerdict::kept);
    print(voice.format == Format::json ? to_json(verdicts, play.measured_s(), kept)
                                       : render_verdict(verdicts, play.measured_s()));
    return kept ? 0 : 1;
  };
  const auto status = run();
  if (!status) {
    complain(status.error(), voice);
    return exit_status(status.error().code);
  }
  return *status;
}

}  // namespace headgate::cli
