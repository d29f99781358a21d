#include "turns_rows.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "base/now.hpp"
#include "daemon_node.hpp"
#include "gangs_row.hpp"
#include "load/asking.hpp"
#include "mixes.hpp"
#include "split.hpp"

namespace headgate::bench {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kBucketNs = static_cast<std::int64_t>(sim::kTruthBucketNs);
static_assert(kBucketNs == load::kIdleBucketNs);
constexpr std::size_t kSecond = 100;  // buckets

// What each tenant had and could have had, in buckets, from when the last one began until the first one ended.
struct Run {
  std::vector<std::vector<Bucket>> tenants;
  std::vector<json> reports;
  double arbiter_percent = 0;    // of a core
  double other_gpu_percent = 0;  // of GPU 1, by all

  [[nodiscard]] double got(std::size_t tenant) const {
    double held = 0;
    for (const Bucket& bucket : tenants[tenant]) held += static_cast<double>(bucket.held_ns);
    return 100 * held / static_cast<double>(kBucketNs) / static_cast<double>(tenants[tenant].size());
  }
  [[nodiscard]] double used() const {
    double sum = 0;
    for (std::size_t i = 0; i < tenants.size(); ++i) sum += got(i);
    return sum;
  }
};

Tenant full(unsigned weight, const std::string& kernels) {
  return {{"--weight=" + std::to_string(weight)}, {"--kernels=" + kernels}, static_cast<double>(weight)};
}
Tenant sparse() { return {{}, {"--kernels=50us", "--sync=each", "--gap=200us"}}; }

class TurnsBench {
 public:
  TurnsBench(const Setting& setting, const NoiseSampler& noise)
      : setting_(setting), noise_(noise), seconds_(setting.quick ? 4 : 10) {}

  Result<Section> measure() {
    for (const auto part : {&TurnsBench::splits, &TurnsBench::promises, &TurnsBench::pauses, &TurnsBench::alone,
                            &TurnsBench::latency, &TurnsBench::gangs, &TurnsBench::equals, &TurnsBench::many}) {
      const auto done = (this->*part)();
      if (done) continue;
      progress(done.error().message);
      section_.rows.push_back({.what = done.error().message,
                               .reach = "",
                               .values = {"failed"},
                               .verdict = Verdict::unmeasured,
                               .details = nullptr});
    }
    return std::move(section_);
  }

 private:
  bool wanted(const std::string& row) const {
    const bool quick = row.starts_with("3:7") || row.starts_with("latency") || row.starts_with("8 equal") ||
                       row == "promises 50, 50 of 50 ms";
    return row.find(setting_.only_case) != std::string::npos && (quick || !setting_.quick);
  }

  Result<Run> play(const std::string& row, const std::vector<Tenant>& tenants, const std::string& policy = "fair") {
    return play({.name = row, .tenants = tenants, .asked = {}}, policy);
  }

  Result<Run> play(const Mix& mix, const std::string& policy = "fair") {
    progress("turns: " + mix.name);
    const auto node = TRY(DaemonNode::start(setting_, mix.profile));
    TRY(node->command({"gpu", "policy", "0", policy}));
    std::vector<load::Child> children, also;
    const double cpu = node->cpu_seconds("arbiter");
    const auto began = steady_clock::now();
    // Tenants start one after the other; each stays until all have run together for long enough.
    const auto stay_ms =
        seconds_ * 1000 + 2000 + 400 * static_cast<int>(mix.tenants.size()) + (mix.daemon_dies ? 4000 : 0);
    const std::string stay = "--duration=" + std::to_string(stay_ms) + "ms";
    for (std::size_t i = 0; i < mix.tenants.size(); ++i) {
      const Tenant& tenant = mix.tenants[i];
      const std::string name = "tenant" + std::to_string(i);
      const auto line_of = [&](const std::vector<std::string>& load) {
        std::vector<std::string> line{setting_.load_program, stay};
        line.insert(line.end(), load.begin(), load.end());
        return line;
      };
      if (tenant.beside_shares) {
        children.push_back(TRY(node->run_unlimited(line_of(tenant.load))));
        continue;
      }
      std::vector<std::string> words{"share", "create", name, "--mem=" + std::to_string(tenant.gib) + "GiB"};
      words.insert(words.end(), tenant.share.begin(), tenant.share.end());
      TRY(node->command(words));
      children.push_back(TRY(node->run(name, line_of(tenant.load))));
      for (const auto& load : tenant.also) also.push_back(TRY(node->run(name, line_of(load))));
    }
    Run run;
    std::int64_t from_ns = 0;
    if (mix.daemon_dies) {
      std::this_thread::sleep_for(milliseconds(2000));
      node->kill();
      from_ns = static_cast<std::int64_t>(steady_now_ns()) + 1'000'000'000;
    }
    const auto end_of = [&](load::Child& child) -> Result<load::ChildEnd> {
      const load::ChildEnd end = child.wait(began + milliseconds(stay_ms + 60'000));
      if (end.status == 0) return end;
      return fail(ErrorCode::failed, mix.name + ": a tenant ended with " + std::to_string(end.status) + ": " + end.err);
    };
    for (load::Child& child : children) {
      run.reports.push_back(json::parse(TRY(end_of(child)).out, nullptr, false));
      if (run.reports.back().is_discarded())
        return fail(ErrorCode::failed, mix.name + ": a tenant's report is no JSON");
    }
    for (load::Child& child : also) TRY(end_of(child));
    const std::chrono::duration<double> took = steady_clock::now() - began;
    if (!mix.daemon_dies) run.arbiter_percent = 100 * (node->cpu_seconds("arbiter") - cpu) / took.count();
    TRY(fill(run, TRY(node->truth()), mix.name, from_ns));
    return run;
  }

  // `from_ns`: judged not before it.
  Result<void> fill(Run& run, const sim::Truth& truth, const std::string& row, std::int64_t from_ns) {
    std::int64_t to_ns = INT64_MAX;
    for (const json& report : run.reports) {
      from_ns = std::max(from_ns, report["started_ns"].get<std::int64_t>());
      to_ns = std::min(to_ns, report["ended_ns"].get<std::int64_t>());
    }
    const std::int64_t first = from_ns / kBucketNs + 1, last = first + static_cast<std::int64_t>(kSecond) * seconds_;
    if (last > to_ns / kBucketNs)
      return fail(ErrorCode::failed, row + ": its tenants were never at work together for so long",
                  "a machine with less to do");
    const auto held_ns = [](const sim::DeviceTruth& device, const std::set<int>& pids, std::int64_t from,
                            std::int64_t to) {
      std::uint64_t held = 0;
      for (const sim::ProcessTruth& process : device.processes)
        if (pids.empty() || pids.contains(process.pid))
          held += process.history.between(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
      return static_cast<std::int64_t>(held);
    };
    if (truth.devices.size() > 1)
      run.other_gpu_percent = 100 * static_cast<double>(held_ns(truth.devices[1], {}, first, last)) /
                              static_cast<double>((last - first) * kBucketNs);
    const NoiseSampler::Late late = noise_.late();
    for (json& report : run.reports) {
      const std::set<int> pids(report["pids"].begin(), report["pids"].end());
      const json& idle = report["not_asking"]["idle_ns"];
      const std::int64_t log_first = report["started_ns"].get<std::int64_t>() / kBucketNs;
      std::vector<Bucket>& buckets = run.tenants.emplace_back();
      for (std::int64_t bucket = first; bucket < last; ++bucket) {
        const auto in_log = static_cast<std::size_t>(bucket - log_first);
        buckets.push_back({.held_ns = held_ns(truth.devices[0], pids, bucket, bucket + 1),
                           .idle_ns = in_log < idle.size() ? idle[in_log].get<std::int64_t>() : 0,
                           .late_ns = late.at(bucket)});
      }
      report.erase("not_asking");
    }
    return {};
  }

  Row& add(const std::string& what, const std::string& reach, const Run& run, const std::string& got,
           const std::string& off, bool reached) {
    json tenants = json::array();
    for (std::size_t i = 0; i < run.tenants.size(); ++i)
      tenants.push_back({{"held_percent", run.got(i)}, {"report", run.reports[i]}});
    section_.rows.push_back(
        {.what = what,
         .reach = reach,
         .values = {got, off, printed("%.1f %%", run.used()), printed("%.1f %%", run.arbiter_percent)},
         .verdict = reached ? Verdict::reached : Verdict::missed,
         .details = {{"tenants", tenants}, {"arbiter_percent_of_a_core", run.arbiter_percent}}});
    return section_.rows.back();
  }

  static std::string in_parts(const std::vector<double>& parts) {
    std::string text;
    for (const double part : parts) text += (text.empty() ? "" : " / ") + printed("%.2f", part);
    return text;
  }

  Result<void> splits() {
    std::vector<Mix> all = {
        {"1:1 of 200 us", {full(100, "200us"), full(100, "200us")}},
        {"3:7 of 200 us", {full(300, "200us"), full(700, "200us")}},
        {"1:9 of 200 us", {full(100, "200us"), full(900, "200us")}},
        {"1:1, 20 us beside 5 ms", {full(100, "20us"), full(100, "5ms")}},
        {"1:1, graphs of 10 beside eager, 100 us", {{{}, {"--kernels=100us", "--graph=10"}}, full(100, "100us")}},
        {"1:2:4:8 of 200 us", {full(100, "200us"), full(200, "200us"), full(400, "200us"), full(800, "200us")}},
    };
    for (Mix& mix : all) {
      double weights = 0;
      for (const Tenant& tenant : mix.tenants) weights += tenant.weight;
      for (const Tenant& tenant : mix.tenants) mix.asked.push_back(100 * tenant.weight / weights);
      if (wanted(mix.name)) judge(mix, TRY(play(mix)), 0.5);
    }
    return {};
  }

  Result<void> promises() {
    for (const Mix& mix : promise_mixes())
      if (wanted(mix.name)) judge(mix, TRY(play(mix)), 1 + mix.in_flight_ms / (10.0 * seconds_));
    return {};
  }

  // Judges whether each tenant had what is asked for it, within so many points.
  void judge(const Mix& mix, const Run& run, double points) {
    double worst = 0;
    for (const double wrong : wrong_parts(run.tenants, kBucketNs, mix.asked)) worst = std::max(worst, std::abs(wrong));
    std::vector<double> got;
    for (std::size_t i = 0; i < mix.tenants.size(); ++i) got.push_back(run.got(i));
    std::string reach = printed("wrong by %.1f point", points), off = printed("%.2f", worst);
    if (mix.uses_other_gpu) reach += "; 98 % of GPU 1";
    if (run.other_gpu_percent > 0) off += printed(", GPU 1 %.1f %%", run.other_gpu_percent);
    // The last of many is the large one.
    const auto [least, most] = std::minmax_element(got.begin(), got.end() - 1);
    const std::string parts =
        got.size() <= 8 ? in_parts(got) : printed("%.2f .. %.2f / %.2f", *least, *most, got.back());
    const bool reached = worst <= points && (!mix.uses_other_gpu || run.other_gpu_percent >= 98);
    add(mix.name, reach, run, parts, off, reached).details["asked_percent"] = mix.asked;
  }

  // No tenant can use more than the whole GPU, and a sparse tenant no more than it gets alone.
  Result<void> pauses() {
    for (const char* kernels : {"20us", "200us", "1ms"}) {
      const std::string beside = std::string("20 % busy (50 us, 200 us pause) beside ") + kernels;
      if (!wanted(beside)) continue;
      const Run run = TRY(play(beside, {sparse(), full(100, kernels)}));
      // Kernels longer than the pauses do not run in them: docs/decisions/arbiter.md.
      const bool fits = kernels != std::string_view("1ms");
      Row& row = add(beside, fits ? "98 % used" : "none: longer than the pause", run,
                     in_parts({run.got(0), run.got(1)}), "", run.used() >= 98);
      if (!fits) row.verdict = Verdict::told;
    }
    const std::string two = "two launch-bound (50 us, 200 us pause)";
    if (wanted(two)) {
      const Run free = TRY(play(two + ", policy off", {sparse(), sparse()}, "off"));
      const Run run = TRY(play(two, {sparse(), sparse()}));
      add(two, "98 % of policy off", run, in_parts({run.got(0), run.got(1)}),
          printed("%.1f %% of it", 100 * run.used() / free.used()), run.used() >= 0.98 * free.used());
    }
    return {};
  }

  Result<void> alone() {
    Tenant below = sparse();
    below.share = {"--compute=50%"};
    const std::vector<std::pair<std::string, Tenant>> all = {{"one alone, 200 us", full(100, "200us")},
                                                             {"one alone, 20 % busy under a ceiling of 50 %", below}};
    for (const auto& [name, tenant] : all) {
      if (!wanted(name)) continue;
      Tenant unlimited = tenant;
      unlimited.beside_shares = true;
      const Run free = TRY(play(name + ", unlimited", {unlimited}));
      const Run run = TRY(play(name, {tenant}));
      add(name, "99 % of unlimited", run, in_parts({run.got(0)}),
          printed("%.2f %% of it", 100 * run.got(0) / free.got(0)), run.got(0) >= 0.99 * free.got(0));
    }
    return {};
  }

  Result<void> gangs() {
    if (!wanted(kGangsRow)) return {};
    section_.rows.push_back(TRY(gangs_row(setting_)));
    return {};
  }

  // Latency of requests, including their kernels, next to a share that is always busy.
  Result<void> latency() {
    struct Case {
      std::string name, reach;
      Tenant tenant;
      std::string beside;
      double most_more_ms;
    };
    const std::vector<Case> all = {
        {"latency class (200 us each 5 ms) beside 1 ms", "P99 alone + 1.3 ms",
         Tenant{{"--class=latency"}, {"--kernels=200us", "--sync=batch:1", "--gap=4800us"}}, "1ms", 1.3},
        {"one that wakes each 50 ms (200 us) beside 200 us", "P99 alone + a turn (2.5 ms) + a kernel",
         Tenant{{}, {"--kernels=200us", "--sync=batch:1", "--gap=50ms"}}, "200us", 2.7},
    };
    for (const Case& each : all) {
      if (!wanted(each.name)) continue;
      const Run free = TRY(play(each.name + ", alone", {each.tenant}));
      const Run run = TRY(play(each.name, {each.tenant, full(100, each.beside)}));
      const double before = free.reports[0]["request_ns"]["p99"].get<double>() * 1e-6;
      const double beside = run.reports[0]["request_ns"]["p99"].get<double>() * 1e-6;
      add(each.name, each.reach, run, in_parts({run.got(0), run.got(1)}),
          printed("P99 %.2f ms, alone %.2f", beside, before), beside <= before + each.most_more_ms);
    }
    return {};
  }

  // Judges the least equal second. Time that a tenant could not have requested counts as used.
  Result<void> equals() {
    const std::string name = "8 equal, 200 us, each second";
    if (!wanted(name)) return {};
    const Run run = TRY(play(name, std::vector<Tenant>(8, full(100, "200us"))));
    double least = 1;
    for (int second = 0; second < seconds_; ++second) {
      std::vector<std::vector<Bucket>> of_it;
      for (const auto& buckets : run.tenants) {
        const auto from = buckets.begin() + second * static_cast<std::ptrdiff_t>(kSecond);
        of_it.emplace_back(from, from + static_cast<std::ptrdiff_t>(kSecond));
      }
      double sum = 0, squares = 0;
      for (const double wrong : wrong_parts(of_it, kBucketNs, std::vector<double>(8, 12.5))) {
        sum += 12.5 + wrong;
        squares += (12.5 + wrong) * (12.5 + wrong);
      }
      least = std::min(least, sum * sum / (8 * squares));
    }
    std::vector<double> got;
    for (std::size_t i = 0; i < 8; ++i) got.push_back(run.got(i));
    add(name, "Jain 0.999", run, printed("%.2f .. %.2f", std::ranges::min(got), std::ranges::max(got)),
        printed("Jain %.4f", least), least >= 0.999);
    return {};
  }

  // 62 processes that hold memory and do nothing, next to two that contend.
  Result<void> many() {
    const std::string name = "64 processes, two at work, 200 us";
    if (!wanted(name)) return {};
    progress("turns: " + name);
    const auto node = TRY(DaemonNode::start(setting_, "h200"));
    // A context takes half a GiB of the share.
    TRY(node->command({"share", "create", "quiet", "--mem=64GiB"}));
    for (const char* share : {"left", "right"}) TRY(node->command({"share", "create", share, "--mem=1GiB"}));
    std::vector<load::Child> children;
    const std::string stay = "--duration=" + std::to_string(seconds_ + 45) + "s";
    children.push_back(TRY(node->run(
        "quiet", {setting_.load_program, "--processes=62", "--mem=64MiB", "--no-launches", "--no-idle-list", stay})));
    for (const char* share : {"left", "right"})
      children.push_back(TRY(node->run(share, {setting_.load_program, "--kernels=200us", "--no-idle-list", stay})));
    const auto deadline = steady_clock::now() + milliseconds(40'000);
    const auto all_there = [&]() -> Result<bool> {
      const sim::Truth truth = TRY(node->truth());
      std::size_t at_home = 0, at_work = 0;
      for (const sim::ProcessTruth& process : truth.devices[0].processes) {
        at_home += process.bytes >= 64ull << 20 ? 1 : 0;
        at_work += process.held_ns > 5'000'000 ? 1 : 0;
      }
      return at_home == 62 && at_work == 2;
    };
    while (!TRY(all_there())) {
      if (steady_clock::now() > deadline) return fail(ErrorCode::failed, name + ": they did not all start in 40 s");
      std::this_thread::sleep_for(milliseconds(50));
    }
    // Time until the gates are written; the machine's wake-up time is shown next to it.
    struct Quick {
      std::string name;
      double within = 0, all = 0;
      Result<void> read(DaemonNode& from) {
        const auto now = TRY(from.metrics({name + "_bucket{le=\"5e-05\"}", name + "_count"}));
        within = now[0] - within;
        all = now[1] - all;
        return {};
      }
      double percent() const { return 100 * within / std::max(1.0, all); }
    } decisions{"headgate_arbiter_decision_seconds"}, wakes{"headgate_arbiter_wake_seconds"};
    TRY(decisions.read(*node));
    TRY(wakes.read(*node));
    const double arbiter = node->cpu_seconds("arbiter"), all = node->cpu_seconds();
    const auto began = steady_clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(seconds_));
    const std::chrono::duration<double> took = steady_clock::now() - began;
    const double arbiter_percent = 100 * (node->cpu_seconds("arbiter") - arbiter) / took.count();
    const double all_percent = 100 * (node->cpu_seconds() - all) / took.count();
    TRY(decisions.read(*node));
    TRY(wakes.read(*node));
    const double mib = static_cast<double>(node->resident_bytes()) / (1 << 20);
    section_.rows.push_back(
        {.what = name,
         .reach = "1 % of a core; 32 MiB; decision P99 50 us",
         .values = {printed("%.1f MiB", mib), printed("all threads %.1f %%", all_percent),
                    printed("%.2f %% in 50 us, wakes %.1f", decisions.percent(), wakes.percent()),
                    printed("%.1f %%", arbiter_percent)},
         .verdict = arbiter_percent <= 1 && mib <= 32 && decisions.percent() >= 99 ? Verdict::reached : Verdict::missed,
         .details = {{"arbiter_percent_of_a_core", arbiter_percent},
                     {"daemon_percent_of_a_core", all_percent},
                     {"decisions", decisions.all},
                     {"decisions_within_50_us_percent", decisions.percent()},
                     {"wakes", wakes.all},
                     {"wakes_within_50_us_percent", wakes.percent()},
                     {"resident_mib", mib}}});
    return {};
  }

  const Setting& setting_;
  const NoiseSampler& noise_;
  int seconds_;
  Section section_{.title = "TURNS between shares under headgated, percent of the GPU",
                   .columns = {"got", "off", "used", "arbiter"},
                   .rows = {}};
};

}  // namespace

Result<Section> turns_section(const Setting& setting, const NoiseSampler& noise) {
  return TurnsBench(setting, noise).measure();
}

}  // namespace headgate::bench
