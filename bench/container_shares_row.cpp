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
constexpr unsigned kPercents[] = {30, 70};

// The load, with the libraries that it, the driver and the limiter need.
constexpr const char* kMakeRoot = R"sh(
  set -e; mkdir -p "$ROOT/proc" "$ROOT/etc" "$ROOT/run" "$ROOT/dev" "$ROOT/tmp"
  for link in /lib /lib64; do [ ! -L $link ] || { cp -P $link "$ROOT$link"; mkdir -p "$ROOT/usr$link"; }; done
  for file in $(ldd "$LOAD" "$DRIVER" "$LIMITER" | grep -o '/[^ :]* (' | cut -d' ' -f1 | sort -u); do
    mkdir -p "$ROOT$(dirname $file)"; cp -L $file "$ROOT$file"
  done
  cp "$LOAD" "$ROOT/load")sh";

json bundle_of(const std::string& root, const std::string& share, const std::string& id) {
  return {{"ociVersion", "1.0.2"},
          {"root", {{"path", root}}},
          {"process",
           {{"user", {{"uid", 0}, {"gid", 0}}},
            {"args", {"/load", "--duration=13s", "--kernels=200us"}},
            {"env", {"PATH=/usr/bin"}},
            {"cwd", "/"}}},
          {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
          {"annotations", {{"headgate.io/share", share}}},
          {"linux", {{"cgroupsPath", "/" + id}, {"namespaces", {{{"type", "mount"}}, {{"type", "ipc"}}}}}}};
}

// What each had of the GPU while both were at work, in percent.
Result<std::vector<double>> play(const Setting& setting, const std::string& folder) {
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
  std::vector<load::Child> containers;
  for (const unsigned percent : kPercents) {
    const std::string share = "share" + std::to_string(percent), bundle = folder + "/" + share;
    TRY(node->command({"share", "create", share, "--mem=1GiB", printed("--compute=%u%%", percent)}));
    fs::create_directories(bundle);
    const std::string id = "headgate-bench-" + std::to_string(::getpid()) + "-" + std::to_string(percent);
    std::ofstream(bundle + "/config.json") << bundle_of(root, share, id).dump();
    containers.push_back(
        TRY(load::Child::start({.argv = {setting.runtime_program, "--headgate-config", folder + "/config.toml",
                                         "--root", folder + "/state", "run", "--bundle", bundle, id}})));
  }
  std::vector<json> reports;
  std::int64_t from_ns = 0, to_ns = INT64_MAX;
  for (load::Child& container : containers) {
    const load::ChildEnd end = container.wait(std::chrono::steady_clock::now() + milliseconds(60'000));
    reports.push_back(json::parse(end.out, nullptr, false));
    if (end.status != 0 || !reports.back().is_object())
      return fail(ErrorCode::failed, "a container ended with " + std::to_string(end.status) + ": " + end.err);
    from_ns = std::max(from_ns, reports.back()["started_ns"].get<std::int64_t>());
    to_ns = std::min(to_ns, reports.back()["ended_ns"].get<std::int64_t>());
  }
  const std::int64_t first = from_ns / kBucketNs + 1;
  if (first + kBuckets > to_ns / kBucketNs) return fail(ErrorCode::failed, "they were not at work together for 10 s");
  const sim::Truth truth = TRY(node->truth());
  std::vector<double> percents;
  for (const json& report : reports) {
    const std::set<int> pids(report["pids"].begin(), report["pids"].end());
    double held = 0;
    for (const sim::ProcessTruth& process : truth.devices[0].processes)
      if (pids.contains(process.pid))
        held += static_cast<double>(
            process.history.between(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(first + kBuckets)));
    percents.push_back(100 * held / static_cast<double>(kBuckets * kBucketNs));
  }
  return percents;
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
  const auto had = play(setting, folder);
  fs::remove_all(folder);
  if (!had) {
    progress(had.error().message);
    row.values = {"failed"};
    return row;
  }
  const double off = std::max(std::abs((*had)[0] - kPercents[0]), std::abs((*had)[1] - kPercents[1]));
  row.values = {printed("%.2f and %.2f %%", (*had)[0], (*had)[1])};
  row.verdict = off <= 0.5 ? Verdict::reached : Verdict::missed;
  row.details = {{"percents", *had}};
  return row;
}

}  // namespace headgate::bench
