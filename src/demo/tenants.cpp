#include "demo/tenants.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "install/paths.hpp"

namespace headgate::demo {

Result<PrivateNode> PrivateNode::make() {
  const std::string base = install::environment("TMPDIR");
  std::string path = (base.empty() ? "/tmp" : base) + "/headgate-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return fail_errno("cannot make a directory like " + path, errno, "set TMPDIR to a directory that you may write");
  PrivateNode node;
  node.path_ = path;
  for (const std::string& part : {node.node(), node.runtime()})
    if (::mkdir(part.c_str(), 0700) != 0) return fail_errno("cannot make the directory " + part, errno);
  return node;
}

PrivateNode::PrivateNode(PrivateNode&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PrivateNode::~PrivateNode() {
  std::error_code ignored;  // nothing can be done about a file that stays
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<LoadReport> read_load_report(const std::string& line) {
  const auto json = parse_json(line);
  if (json.is_discarded() || json.value("schema", "") != "headgate.load/v1")
    return fail(ErrorCode::failed, "the load's report cannot be read: '" + line.substr(0, 200) + "'");
  LoadReport report;
  report.device = json.value("device", "");
  report.started_ns = json.value("started_ns", std::int64_t{0});
  report.ended_ns = json.value("ended_ns", std::int64_t{0});
  report.drained_ns = json.value("drained_ns", std::int64_t{0});
  report.launches = json.value("launches", std::uint64_t{0});
  report.not_asking_ns = json.value("not_asking_ns", std::int64_t{0});
  report.processor_wait_ns = json.value("processor_wait_ns", std::int64_t{0});
  const auto part = [&json](const char* name) { return json.value(name, nlohmann::ordered_json::object()); };
  report.seen_total_bytes = part("memory").value("total_bytes", std::uint64_t{0});
  report.attempted_bytes = part("attempt").value("asked_bytes", std::uint64_t{0});
  report.attempt_given_bytes = part("attempt").value("given_bytes", std::uint64_t{0});
  report.edge_free_bytes = part("edge").value("free_bytes", std::uint64_t{0});
  report.edge_over_refused = part("edge").value("one_byte_over_refused", false);
  report.edge_all_given = part("edge").value("all_free_given", false);
  report.pids = json.value("pids", std::set<std::uint32_t>{});
  report.grown_bytes = part("grow").value("given_bytes", std::uint64_t{0});
  report.grow_refused = part("grow").value("refused", false);
  report.request_p50_ns = part("request_ns").value("p50", std::uint64_t{0});
  report.request_p99_ns = part("request_ns").value("p99", std::uint64_t{0});
  return report;
}

std::vector<std::string> not_ours() {
  return {"HEADGATE_*",      "CUDA_MEM*",      "CUDA_CORE*", "CUDA_DEVICE_MEMORY*", "NOTIFY_SOCKET",
          "CUDA_DEVICE_SM*", "TENSOR_FUSION*", "LD_PRELOAD", "WATCHDOG_USEC",       "LD_LIBRARY_PATH"};
}

Result<load::Child> start_tenant(const PrivateNode& node, const TenantSpec& spec,
                                 const std::optional<std::string>& simulated) {
  load::ChildSpec child;
  child.argv = {install::own_executable(), "run", "--name=" + spec.share};
  child.argv.insert(child.argv.end(), spec.run_arguments.begin(), spec.run_arguments.end());
  if (simulated) {
    child.argv.push_back("--sim");
    child.environment.emplace_back("HEADGATE_SIM_DIR", node.node());
    // The node is private and empty: the first process that opens it creates it from this profile.
    if (!simulated->empty()) child.environment.emplace_back("HEADGATE_SIM_PROFILE", *simulated);
  }
  child.argv.push_back("--");
  child.argv.push_back(TRY(install::private_program("headgate-load")));
  child.argv.insert(child.argv.end(), spec.load_arguments.begin(), spec.load_arguments.end());
  child.environment.emplace_back("HEADGATE_RUNTIME_DIR", node.runtime());
  child.without = not_ours();
  if (!simulated) child.without.pop_back();  // LD_LIBRARY_PATH may lead to the real driver
  return load::Child::start(child);
}

HeldSpan held_by(const sim::Truth& truth, const std::set<std::uint32_t>& pids, std::int64_t from_ns,
                 std::int64_t to_ns) {
  constexpr auto kBucket = sim::kTruthBucketNs;
  const std::uint64_t first = (static_cast<std::uint64_t>(std::max<std::int64_t>(from_ns, 0)) + kBucket - 1) / kBucket;
  const std::uint64_t end = static_cast<std::uint64_t>(std::max<std::int64_t>(to_ns, 0)) / kBucket;
  HeldSpan held;
  if (end <= first) return held;
  held.span_ns = (end - first) * kBucket;
  for (const sim::DeviceTruth& device : truth.devices)
    for (const sim::ProcessTruth& process : device.processes)
      if (pids.contains(static_cast<std::uint32_t>(process.pid))) held.held_ns += process.history.between(first, end);
  return held;
}

std::string decimal_text(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::uint64_t peak_bytes(const sim::Truth& truth, const std::set<std::uint32_t>& pids) {
  std::uint64_t peak = 0;
  for (const sim::DeviceTruth& device : truth.devices)
    for (const sim::ProcessTruth& process : device.processes)
      if (pids.contains(static_cast<std::uint32_t>(process.pid))) peak += process.peak_bytes;
  return peak;
}

}  // namespace headgate::demo
