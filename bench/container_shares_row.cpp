#include "container_shares_row.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon_node.hpp"

namespace headgate::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
constexpr auto kBucketNs = static_cast<std::int64_t>(sim::kTruthBucketNs);
constexpr std::int64_t kBuckets = 10'000'000'000 / kBucketNs;
constexpr const char* kRunc = "/usr/sbin/runc";
constexpr const char *kLength = "--duration=13s", *kKernels = "--kernels=200us";
constexpr unsigned kPercents[] = {30, 70};

// The load, with the libraries that it, the driver and the limiter need.
constexpr const char* kMakeRoot = R"sh(
  set -e; mkdir -p "$ROOT/proc" "$ROOT/etc" "$ROOT/run" "$ROOT/dev" "$ROOT/tmp"
  for link in /lib /lib64; do [ ! -L $link ] || { cp -P $link "$ROOT$link"; mkdir -p "$ROOT/usr$link"; }; done
  for file in $(ldd "$LOAD" "$DRIVER" "$LIMITER" | grep -o '/[^ :]* (' | cut -d' ' -f1 | sort -u); do
    mkdir -p "$ROOT$(dirname $file)"; cp -L $file "$ROOT$file"
  done
  cp "$LOAD" "$ROOT/load")sh";

// A new cgroup has by default the CPU's weight of one thread beside it, and the load has several: on a busy
// machine that, not the limiter, would be measured.
json bundle_of(const std::string& root, const std::string& share, const std::string& id) {
  return {{"ociVersion", "1.0.2"},
          {"root", {{"path", root}}},
          {"process",
           {{"user", {{"uid", 0}, {"gid", 0}}},
            {"args", {"/load", kLength, kKernels}},
            {"env", {"PATH=/usr/bin"}},
            {"cwd", "/"}}},
          {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
          {"annotations", {{"headgate.io/share", share}}},
          {"linux",
           {{"cgroupsPath", "/" + id},
            {"resources", {{"cpu", {{"shares", 8192}}}}},
            {"namespaces", {{{"type", "mount"}}, {{"type", "ipc"}}}}}}};
}

// What a container had of the GPU while both were at work, and for how much of that time it asked, in percent.
struct Had {
  double held = 0, asked = 0;
};

double idle_ns(const json& report, std::int64_t first) {
  const json& idle = report["not_asking"]["idle_ns"];
  const std::int64_t log_first = report["started_ns"].get<std::int64_t>() / kBucketNs;
  double sum = 0;
  for (std::int64_t bucket = first - log_first; bucket < first - log_first + kBuckets; ++bucket)
    if (bucket >= 0 && bucket < static_cast<std::int64_t>(idle.size()))
      sum += idle[static_cast<std::size_t>(bucket)].get<double>();
  return sum;
}

// `contained`: else the same load by `headgate run`.
Result<std::vector<Had>> play(const Setting& setting, const std::string& folder, bool contained) {
  const auto node = TRY(DaemonNode::start(setting, "h200", {"--cdi-dir", "{runtime}/cdi"}));
  fs::create_directories(folder);
  std::ofstream(folder + "/config.toml") << "[cdi]\ndir = '" << node->runtime() << "/cdi'\n[runtime]\nprogram = '"
                                         << kRunc << "'\n";
  const std::string root = folder + "/rootfs";
  TRY(load::run_child({.argv = {"/bin/sh", "-c", kMakeRoot},
                       .environment = {{"ROOT", root},
                                       {"LOAD", setting.load_program},
                                       {"DRIVER", setting.simulator_dir + "/libcuda.so.1"},
                                       {"LIMITER", setting.ours.library}}},
                      milliseconds(20'000)));
  std::vector<load::Child> tenants;
  for (const unsigned percent : kPercents) {
    const std::string share = "share" + std::to_string(percent), bundle = folder + "/" + share;
    TRY(node->command({"share", "create", share, "--mem=1GiB", printed("--compute=%u%%", percent)}));
    if (!contained) {
      tenants.push_back(TRY(node->run(share, {setting.load_program, kLength, kKernels})));
      continue;
    }
    fs::create_directories(bundle);
    const std::string id = "headgate-bench-" + std::to_string(::getpid()) + "-" + std::to_string(percent);
    std::ofstream(bundle + "/config.json") << bundle_of(root, share, id).dump();
    tenants.push_back(
        TRY(load::Child::start({.argv = {setting.runtime_program, "--headgate-config", folder + "/config.toml",
                                         "--root", folder + "/state", "run", "--bundle", bundle, id}})));
  }
  std::vector<json> reports;
  std::int64_t from_ns = 0, to_ns = INT64_MAX;
  for (load::Child& tenant : tenants) {
    const load::ChildEnd end = tenant.wait(std::chrono::steady_clock::now() + milliseconds(60'000));
    reports.push_back(json::parse(end.out, nullptr, false));
    if (end.status != 0 || !reports.back().is_object())
      return fail(ErrorCode::failed, "a tenant ended with " + std::to_string(end.status) + ": " + end.err);
    from_ns = std::max(from_ns, reports.back()["started_ns"].get<std::int64_t>());
    to_ns = std::min(to_ns, reports.back()["ended_ns"].get<std::int64_t>());
  }
  const std::int64_t first = from_ns / kBucketNs + 1;
  if (first + kBuckets > to_ns / kBucketNs) return fail(ErrorCode::failed, "they were not at work together for 10 s");
  const sim::Truth truth = TRY(node->truth());
  std::vector<Had> all;
  constexpr double kAllNs = static_cast<double>(kBuckets * kBucketNs);
  for (const json& report : reports) {
    const std::set<int> pids(report["pids"].begin(), report["pids"].end());
    double held = 0;
    for (const sim::ProcessTruth& process : truth.devices[0].processes)
      if (pids.contains(process.pid))
        held += static_cast<double>(
            process.history.between(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(first + kBuckets)));
    all.push_back({.held = 100 * held / kAllNs, .asked = 100 - 100 * idle_ns(report, first) / kAllNs});
  }
  return all;
}

}  // namespace

Row container_shares_row(const Setting& setting) {
  Row row{.what = "two containers on shares of 30 and 70 %, full load, 10 s",
          .reach = "0.5 points",
          .values = {},
          .verdict = Verdict::unmeasured,
          .details = nullptr};
  if (::geteuid() != 0 || ::access(kRunc, X_OK) != 0) {
    row.values = {"needs root and runc"};
    return row;
  }
  progress("containers: two under full load");
  const std::string folder = setting.directory + "/two-containers";
  const auto beside = play(setting, folder, false), had = play(setting, folder, true);
  fs::remove_all(folder);
  if (!had || !beside) {
    progress((had ? beside : had).error().message);
    row.values = {"failed"};
    return row;
  }
  const Had &one = (*had)[0], &other = (*had)[1];
  const double off = std::max(std::abs(one.held - kPercents[0]), std::abs(other.held - kPercents[1]));
  row.values = {printed("%.2f and %.2f %%; by headgate run %.2f and %.2f %%", one.held, other.held, (*beside)[0].held,
                        (*beside)[1].held)};
  row.verdict = off <= 0.5 ? Verdict::reached : Verdict::missed;
  row.details = {{"held_percent", {one.held, other.held}},
                 {"asked_percent", {one.asked, other.asked}},
                 {"held_by_headgate_run_percent", {(*beside)[0].held, (*beside)[1].held}}};
  return row;
}

}  // namespace headgate::bench
