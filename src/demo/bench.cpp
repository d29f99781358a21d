#include "demo/demo.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "cli/term/screen.hpp"
#include "demo/tenants.hpp"
#include "load/child.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client

namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMemoryLimitBytes = 2ull << 30;
constexpr double kAllowedSimulated = 1.0;  // percentage points
// Completed work is less precise than the simulator's truth: the unlimited reference run has gaps between kernels too.
constexpr double kAllowedByWork = 2.0;

struct Line {
  std::string what, asked, got, witness;
  bool kept = false;
  double asked_value = 0, got_value = 0;
  double absent_percent = 0;
  bool could_not_ask = false;  // then `kept` is meaningless
};

// Returns the percentage of the measured time in which the program was absent.
double absent_percent(const LoadReport& report) {
  const std::int64_t span_ns = report.ended_ns - report.started_ns;
  if (span_ns <= 0) return 0;
  return 100.0 * static_cast<double>(std::max(report.not_asking_ns, report.processor_wait_ns)) /
         static_cast<double>(span_ns);
}

// Returns kernels per second up to the end of the last one, so that queued kernels do not count as done.
double rate_of(const LoadReport& report) {
  return static_cast<double>(report.launches) / (static_cast<double>(report.drained_ns - report.started_ns) * 1e-9);
}

class Bench {
 public:
  Bench(PrivateNode node, std::optional<std::string> simulate, const Voice& voice)
      : node_(std::move(node)), simulate_(std::move(simulate)), voice_(voice) {}

  Result<std::vector<Line>> measure() {
    std::vector<Line> lines = TRY(memory());
    double unlimited = 0;
    if (!simulate_) unlimited = rate_of(TRY(run("calibrates: 200 us kernels without a limit", kernels("100%", 2500))));
    for (const unsigned percent : {25u, 50u, 75u}) lines.push_back(TRY(compute(percent, unlimited)));
    return lines;
  }

  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  Result<LoadReport> run(const std::string& step, TenantSpec spec) {
    if (voice_.talk) say(step);
    spec.run_arguments.push_back("--gpu=0");
    spec.load_arguments.push_back("--no-idle-list");
    load::Child child = TRY(start_tenant(node_, spec, simulate_));
    const auto deadline = std::chrono::steady_clock::now() + milliseconds(60'000);
    // Short sleeps, so that Ctrl-C is noticed.
    while (child.running() && std::chrono::steady_clock::now() < deadline && Interruptions::seen() == 0)
      std::this_thread::sleep_for(milliseconds(20));
    if (Interruptions::seen() != 0) {
      child.end(milliseconds(2000));
      return fail(ErrorCode::failed, "interrupted");
    }
    if (child.running())
      return fail(ErrorCode::failed, "'" + step + "' did not end within a minute", "is the GPU busy with other work?");
    const load::ChildEnd& end = child.so_far();
    if (end.status != 0) {
      // The tenant's own message holds the cause (no driver, no permission); the prefix names the step.
      return fail(end.status == 3 ? ErrorCode::unreachable : ErrorCode::failed,
                  "'" + step + "' ended with status " + std::to_string(end.status) + ": " +
                      end.err.substr(0, end.err.find_last_not_of('\n') + 1));
    }
    LoadReport report = TRY(read_load_report(end.out));
    device_ = report.device;
    return report;
  }

  Result<std::vector<Line>> memory() {
    const TenantSpec spec{
        .share = "bench-memory",
        .run_arguments = {"--mem=" + std::to_string(kMemoryLimitBytes >> 30) + "GiB"},
        .load_arguments = {"--mem=512MiB", "--attempt=3GiB", "--edge", "--no-launches", "--duration=100ms"}};
    const LoadReport report = TRY(run("memory: a limit, a refusal, the last byte", spec));
    const auto refused = [](const char* what, bool kept, double got_value) {
      return Line{.what = what,
                  .asked = "refused",
                  .got = kept ? "refused" : "given",
                  .witness = "cuMemAlloc",
                  .kept = kept,
                  .asked_value = 0,
                  .got_value = got_value};
    };
    return std::vector<Line>{
        {.what = "the program sees its share as the card",
         .asked = bytes_text(kMemoryLimitBytes),
         .got = bytes_text(report.seen_total_bytes),
         .witness = "cuMemGetInfo",
         .kept = report.seen_total_bytes == kMemoryLimitBytes,
         .asked_value = static_cast<double>(kMemoryLimitBytes),
         .got_value = static_cast<double>(report.seen_total_bytes)},
        refused("3.0 GiB at once, over the limit", report.attempt_given_bytes == 0,
                static_cast<double>(report.attempt_given_bytes)),
        refused("one byte more than is free", report.edge_over_refused, report.edge_over_refused ? 0.0 : 1.0),
        {.what = "all that is free, " + bytes_text(report.edge_free_bytes),
         .asked = "given",
         .got = report.edge_all_given ? "given" : "refused",
         .witness = "cuMemAlloc",
         .kept = report.edge_all_given,
         .asked_value = 1,
         .got_value = report.edge_all_given ? 1.0 : 0.0}};
  }

  TenantSpec kernels(const std::string& percent, unsigned milliseconds_long) const {
    return {.share = "bench-compute-" + percent.substr(0, percent.size() - 1),
            .run_arguments = {"--compute=" + percent},
            .load_arguments = {"--kernels=200us", "--duration=" + std::to_string(milliseconds_long) + "ms"}};
  }

  Result<Line> compute(unsigned percent, double unlimited_rate) {
    const std::string word = std::to_string(percent) + "%";
    const std::string step = "compute: 200 us kernels at " + std::to_string(percent) + " %";
    const LoadReport report = TRY(run(step, kernels(word, 4500)));
    double got = 0;
    if (simulate_) {
      const HeldSpan held =
          held_by(TRY(sim::read_truth(node_.node())), report.pids, report.started_ns, report.ended_ns);
      got = 100.0 * static_cast<double>(held.held_ns) / static_cast<double>(held.span_ns);
    } else {
      got = 100 * rate_of(report) / unlimited_rate;
    }
    const double allowed = simulate_ ? kAllowedSimulated : kAllowedByWork;
    const double absent = absent_percent(report);
    const Verdict verdict = judge({.asked_percent = static_cast<double>(percent),
                                   .got_percent = got,
                                   .allowed_points = allowed,
                                   .absent_percent = absent});
    return Line{.what = "GPU time of 200 us kernels",
                .asked = std::to_string(percent) + ".00 %",
                .got = decimal_text(got, 2) + " %",
                .witness = simulate_ ? "the simulator's truth" : "completed work",
                .kept = verdict == Verdict::kept,
                .asked_value = percent / 100.0,
                .got_value = got / 100,
                .absent_percent = absent,
                .could_not_ask = verdict == Verdict::could_not_ask};
  }

  PrivateNode node_;
  std::optional<std::string> simulate_;
  const Voice& voice_;
  std::string device_;
};

std::string report_text(const std::vector<Line>& lines, const std::string& device, bool simulated, const Voice& voice) {
  std::string text = (simulated ? "SIMULATED " : "") + harmless(device) + "\n";
  std::vector<std::vector<std::string>> rows{{"LIMIT", "ASKED", "GOT", "WITNESS", ""}};
  for (const Line& line : lines) {
    rows.push_back({line.what, line.asked, line.got, line.witness,
                    line.kept            ? "kept"
                    : line.could_not_ask ? "not measured"
                                         : warning("NOT KEPT", voice)});
  }
  text += table(rows, voice);
  for (const Line& line : lines) {
    if (!line.could_not_ask) continue;
    text += "Not measured at " + line.asked + ": for " + decimal_text(line.absent_percent, 0) +
            " % of the time the program had no processor to ask with, so this says nothing of the gate. Try again on a "
            "quieter machine.\n";
  }
  if (!simulated)
    text +=
        "Compute is judged by completed work: kernels done under the limit over kernels done without one, within 2 "
        "points.\n"
        "Other programs on this GPU change that figure.\n";
  return text;
}

std::string report_json(const std::vector<Line>& lines, const std::string& device, bool simulated, bool kept) {
  nlohmann::ordered_json json{
      {"schema", "headgate.bench/v1"}, {"simulated", simulated}, {"device", device}, {"kept", kept}};
  for (const Line& line : lines) {
    json["checks"].push_back({{"what", line.what},
                              {"asked", line.asked_value},
                              {"got", line.got_value},
                              {"witness", line.witness},
                              {"kept", line.kept},
                              {"could_not_ask", line.could_not_ask},
                              {"absent_ratio", line.absent_percent / 100}});
  }
  return json.dump() + "\n";
}

Result<int> measured_bench(const cli::Call& call) {
  Bench bench(TRY(PrivateNode::make()), call.simulate, call.voice);
  const std::vector<Line> lines = TRY(bench.measure());
  const bool kept = std::ranges::all_of(lines, &Line::kept);
  print(call.voice.format == Format::json ? report_json(lines, bench.device(), call.simulate.has_value(), kept)
                                          : report_text(lines, bench.device(), call.simulate.has_value(), call.voice));
  if (kept) return 0;
  const bool broken = std::ranges::any_of(lines, [](const Line& line) { return !line.kept && !line.could_not_ask; });
  return broken ? 1 : exit_status(ErrorCode::unsupported);
}

Result<int> run_bench(const cli::Call& call) {
  const Interruptions interruptions;
  const auto status = measured_bench(call);
  return status || Interruptions::seen() == 0 ? status : 130;
}

}  // namespace

cli::Command bench_command() {
  return plain_command(kStart, "bench", "prove the limits on your own card in about 20 s", run_bench, Reads::nothing,
                       [](Options& options) { options.simulated(); });
}

}  // namespace headgate::demo
