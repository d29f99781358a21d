// Tenants of demo and bench: load generators started through the real `headgate run`, and what truth says of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "load/child.hpp"
#include "sim/truth.hpp"

namespace headgate::demo {

// A directory of our own for a node and shares, removed with everything in it.
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

struct TenantSpec {
  std::string share;
  std::vector<std::string> run_arguments;   // behind `headgate run`: "--mem=16GiB", ...
  std::vector<std::string> load_arguments;  // of headgate-load
};

// What headgate-load reports of itself when it has ended.
struct LoadReport {
  std::int64_t started_ns = 0, ended_ns = 0, drained_ns = 0;  // host time, ledger::host_ns()
  std::uint64_t launches = 0;
  double kernel_us = 0;
  std::uint64_t taken_bytes = 0, attempted_bytes = 0, attempt_given_bytes = 0;
  std::uint64_t seen_total_bytes = 0;  // what the driver called the card's size
  std::uint64_t attempt_ns = 0;
  std::uint64_t edge_free_bytes = 0;
  bool edge_over_refused = false, edge_all_given = false;  // --edge
  std::uint64_t launch_p50_ns = 0, launch_p99_ns = 0;
  std::int64_t not_asking_ns = 0;
  std::int64_t processor_wait_ns = 0;  // ready to launch, and without a processor
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

// GPU time that these processes held in [from_ns, to_ns) of ledger::host_ns(), whole truth buckets only; and the
// buckets' span.
struct HeldSpan {
  std::uint64_t held_ns = 0;
  std::uint64_t span_ns = 0;
};
[[nodiscard]] HeldSpan held_by(const sim::Truth& truth, const std::set<std::uint32_t>& pids, std::int64_t from_ns,
                               std::int64_t to_ns);

// The most bytes that truth ever saw these processes hold in allocations, contexts left out.
[[nodiscard]] std::uint64_t peak_bytes(const sim::Truth& truth, const std::set<std::uint32_t>& pids);

}  // namespace headgate::demo
