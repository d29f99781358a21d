// Tenants of demo and bench: load generators started with the real `headgate run`, and their results in the truth page.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "load/child.hpp"
#include "sim/truth.hpp"

namespace headgate::demo {

// A private directory for a node and shares, removed with its contents.
class PrivateNode {
 public:
  [[nodiscard]] static Result<PrivateNode> make();
  PrivateNode(PrivateNode&& other) noexcept;
  PrivateNode& operator=(PrivateNode&&) = delete;
  ~PrivateNode();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string node() const { return path_ + "/node"; }    // HEADGATE_SIM_DIR
  [[nodiscard]] std::string runtime() const { return path_ + "/run"; }  // HEADGATE_RUNTIME_DIR

 private:
  PrivateNode() = default;
  std::string path_;
};

// Variables of the caller that must not apply to tenants: settings, limits (ours and those of other tools), libraries.
// The last of them is LD_LIBRARY_PATH.
[[nodiscard]] std::vector<std::string> not_ours();

struct TenantSpec {
  std::string share;
  std::vector<std::string> run_arguments;   // after `headgate run`: "--mem=16GiB", ...
  std::vector<std::string> load_arguments;  // for headgate-load
};

// headgate-load's report at its end.
struct LoadReport {
  std::int64_t started_ns = 0, ended_ns = 0, drained_ns = 0;  // host time, ledger::host_ns()
  std::uint64_t launches = 0;
  std::uint64_t attempted_bytes = 0, attempt_given_bytes = 0;
  std::uint64_t seen_total_bytes = 0;  // the GPU's memory size as the driver reported it
  std::uint64_t edge_free_bytes = 0;
  bool edge_over_refused = false, edge_all_given = false;  // --edge
  std::int64_t not_asking_ns = 0;
  std::int64_t processor_wait_ns = 0;  // time ready to launch but without a CPU
  std::string device;
  std::set<std::uint32_t> pids;
  std::uint64_t grown_bytes = 0;  // --grow
  bool grow_refused = false;
  std::uint64_t request_p50_ns = 0, request_p99_ns = 0;  // --sync=batch
};
[[nodiscard]] Result<LoadReport> read_load_report(const std::string& line);

// Starts `headgate run ... -- headgate-load ...`. `simulated` adds --sim over the node's directory.
[[nodiscard]] Result<load::Child> start_tenant(const PrivateNode& node, const TenantSpec& spec,
                                               const std::optional<std::string>& simulated);

// GPU time that these processes held in [from_ns, to_ns) of ledger::host_ns(), over whole truth buckets; and the span
// of those buckets.
struct HeldSpan {
  std::uint64_t held_ns = 0;
  std::uint64_t span_ns = 0;
};
[[nodiscard]] HeldSpan held_by(const sim::Truth& truth, const std::set<std::uint32_t>& pids, std::int64_t from_ns,
                               std::int64_t to_ns);

// A number with so many decimals.
[[nodiscard]] std::string decimal_text(double value, int decimals);

// Returns the peak of these processes' allocations in the truth page, without contexts.
[[nodiscard]] std::uint64_t peak_bytes(const sim::Truth& truth, const std::set<std::uint32_t>& pids);

enum class Verdict {
  kept,
  not_kept,       // the gate let too much through, or blocked a program that had demand
  could_not_ask,  // too little, but the program lacked CPU time for as much: no verdict on the gate
};

struct GateMeasurement {
  double asked_percent = 0, got_percent = 0;
  double allowed_points = 0;  // tolerated difference
  // Percentage of the time in which the program had no demand, or was ready without a CPU.
  double absent_percent = 0;
};

[[nodiscard]] constexpr Verdict judge(const GateMeasurement& measured) {
  const double lacks = measured.asked_percent - measured.got_percent;
  if (lacks <= measured.allowed_points && -lacks <= measured.allowed_points) return Verdict::kept;
  // The gate cannot give time that the program did not ask for; any excess is the gate's fault.
  return lacks > 0 && lacks <= measured.allowed_points + measured.absent_percent ? Verdict::could_not_ask
                                                                                 : Verdict::not_kept;
}

}  // namespace headgate::demo
