#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <thread>

#include "guest/ledger/pages.hpp"
#include "share_rows.hpp"
#include "sim/truth.hpp"

namespace headgate::bench {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kBucketNs = static_cast<std::int64_t>(sim::kTruthBucketNs);
constexpr std::int64_t kSkipBuckets = 2, kWindowBuckets = 10, kStepBuckets = 30;  // 20 ms, 100 ms, 300 ms
constexpr char kShare[] = "bench";

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void sleep_until(std::int64_t when_ns) {
  const timespec until{when_ns / 1'000'000'000, when_ns % 1'000'000'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

// The share's pages opened as its owner; unmapped at the end.
struct Pages {
  ledger::SharePages pages;
  ~Pages() { ledger::close_pages(pages); }
};

std::string words_of(const ledger::PageFault& fault) {
  char text[512];
  ledger::explain(fault, text, sizeof text);
  return text;
}

// Opens the share as soon as the load has created it.
Result<void> open_when_there(const std::string& runtime, Pages& into, load::Child& load) {
  const auto deadline = steady_clock::now() + milliseconds(20'000);
  for (;;) {
    const ledger::PageFault fault = ledger::open_share(runtime.c_str(), kShare, ledger::Access::owner, into.pages);
    if (!fault) {
      return {};
    }
    if (!load.running()) {
      return fail(ErrorCode::failed, "the load ended early: " + load.so_far().err);
    }
    if (steady_clock::now() > deadline) {
      return fail(ErrorCode::failed, words_of(fault));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

struct Change {
  std::int64_t bucket;  // takes effect at the start of this bucket
  double limit;
};

}  // namespace

Result<Section> response_section(const Setting& setting) {
  const int changes = setting.quick ? 16 : 50;
  progress(printed("response: %d changes of the limit", changes));
  const std::string name = TRY(make_case(setting));
  const long duration_ms = (changes + 5) * kStepBuckets * 10 + 1000;
  auto spec = child_of(
      setting, setting.ours, setting.simulator_dir, name, {.percent = 20, .bytes = 64ull << 30},
      {setting.load_program, "--kernels=200us", "--duration=" + std::to_string(duration_ms) + "ms", "--no-idle-list"});
  spec.environment.emplace_back("HEADGATE_SHARE", kShare);
  load::Child load = TRY(load::Child::start(spec));
  Pages share;
  TRY(open_when_there(runtime_of(setting, name), share, load));
  if (share.pages.writable_policy == nullptr) {
    return fail(ErrorCode::denied, "the share's policy page cannot be written");
  }
  ledger::DeviceGrant grant = ledger::grant_of(*share.pages.policy).devices[0];
  std::vector<Change> log;
  std::int64_t bucket = now_ns() / kBucketNs + 50;  // after half a second of steady running
  for (int i = 0; i < changes; ++i, bucket += kStepBuckets) {
    const unsigned percent = i % 2 == 0 ? 80 : 20;
    grant.compute_ceiling_ppm = percent * 10'000;
    sleep_until(bucket * kBucketNs);
    if (const ledger::PageFault fault = ledger::set_limits(*share.pages.writable_policy, 0, grant)) {
      return fail(ErrorCode::failed, words_of(fault));
    }
    log.push_back({bucket, percent / 100.0});
  }
  sleep_until((bucket + 5) * kBucketNs);
  const sim::Truth truth = TRY(sim::read_truth(node_of(setting, name)));
  load.signal(SIGTERM);
  const load::ChildEnd end = load.wait(steady_clock::now() + milliseconds(30'000));
  remove_case(setting, name);
  if (end.status != 0 || truth.devices.empty()) {
    return fail(ErrorCode::failed, "the load ended with status " + std::to_string(end.status) + ": " + end.err);
  }

  Section section{.title = "LIMIT changed 20 -> 80 -> 20 %, 200 us kernels",
                  .columns = {"to 80 %", "to 20 %", "mean |error|", "worst"},
                  .rows = {}};
  Row row{.what = printed("error in the 100 ms after the first 20 ms, %d changes", changes),
          .reach = "mean 1 point",
          .values = {},
          .verdict = Verdict::told,
          .details = nullptr};
  double up = 0, down = 0, absolute = 0, worst = 0;
  for (const Change& change : log) {
    const auto from = static_cast<std::uint64_t>(change.bucket + kSkipBuckets);
    const double got = static_cast<double>(truth.devices[0].history.between(from, from + kWindowBuckets)) /
                       static_cast<double>(kWindowBuckets * kBucketNs);
    const double error = 100 * (got - change.limit);
    (change.limit > 0.5 ? up : down) += error;
    absolute += std::abs(error);
    worst = std::max(worst, std::abs(error));
    row.details["errors_points"].push_back(error);
  }
  up /= (changes + 1) / 2;
  down /= changes / 2;
  absolute /= changes;
  row.values = {printed("%+.3f", up), printed("%+.3f", down), printed("%.3f", absolute), printed("%.3f", worst)};
  // Judges the mean of absolute errors, so that a surplus after one change does not offset a shortfall after another.
  row.verdict = absolute <= 1 ? Verdict::reached : Verdict::missed;
  section.rows.push_back(row);
  return section;
}

}  // namespace headgate::bench
