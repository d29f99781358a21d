// headgate run with shares kept by headgated, and what a run says of its share: its limits before the run, refusals
// after it, that its compute limit is very low, and why its programs wait for the GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "cli/run/launch.hpp"
#include "cli/run/run_request.hpp"
#include "cli/term/output.hpp"
#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// A run whose program was found.
struct RunCall {
  const Call& call;  // its words are the program's command line
  const RunOptions& options;
  const Program& program;

  [[nodiscard]] const config::Config& config() const { return call.configuration.config; }
};

// Each returns the program's exit status. Errors: the daemon's, before the program has started.

// `run --share NAME`: joins the share unchanged. Limits given with it are an error.
[[nodiscard]] Result<int> run_in_share(const RunCall& asked);
// Runs in a share that the daemon makes from options, environment and configuration and removes afterwards. If a share
// of that name exists, joins it. With --wait, waits until there is room.
[[nodiscard]] Result<int> run_by_daemon(const http::Endpoint& daemon, const RunCall& asked);

// Returns the share of that name as JSON, once the daemon has made it from `body`. If the daemon goes away, waits for
// it and queues again, at the end. `until`: null means no limit. Errors: the daemon's; no_capacity when the time is
// over.
[[nodiscard]] Result<std::string> share_by_line(const http::Endpoint& daemon, const std::string& name,
                                                const std::string& body,
                                                std::optional<std::chrono::steady_clock::time_point> until,
                                                const Voice& voice);

// "share train on GPU 0 (H200): 8.0 GiB, 50 % promised, at most 80 %, SIMULATED".
[[nodiscard]] std::string format_granted(const snapshot::Snapshot& snapshot, const snapshot::Share& share);

// "share train was refused memory 3 times meanwhile: headgate why train"; empty if there were no refusals.
[[nodiscard]] std::string format_refused(const snapshot::Share& before, const snapshot::Share& after);

// Such limits are allowed, but long kernels behave in ways that surprise new users.
inline constexpr double kLowCeiling = 0.05;  // fraction of a GPU's time

// Returns a remark on the lowest ceiling of the share's GPUs; nothing if it is at least kLowCeiling. Pure.
[[nodiscard]] std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios);
// Prints the remark if remarks are on.
void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice);
void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice);

// Behind another user's MPS server a program blocks in its first call of the driver, which tells it nothing. Says so on
// stderr at once and then every `pause`, until the daemon says that it would not wait; not with --quiet.
class GpuWait {
 public:
  // `ask`: gets the run's entry again, on another thread.
  GpuWait(const Entry& entry, std::function<Result<Entry>()> ask, const Voice& voice,
          std::chrono::milliseconds pause = std::chrono::seconds(10));

 private:
  void follow(const std::stop_token& stop);

  std::function<Result<Entry>()> ask_;
  std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last, so that it ends before the rest
};

}  // namespace headgate::cli
