// The built headgated on a private simulated node, and programs in its shares, started with `headgate run` as a user
// would.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "load/child.hpp"
#include "setting.hpp"
#include "sim/truth.hpp"

namespace headgate::bench {

class DaemonNode {
 public:
  // `profile`: a built-in profile; `words`: further arguments, with {runtime} for the runtime directory. The API is
  // ready on return. Errors: it cannot be started, or is not ready within 20 s.
  [[nodiscard]] static Result<std::unique_ptr<DaemonNode>> start(const Setting& setting, const std::string& profile,
                                                                 std::vector<std::string> words = {});
  ~DaemonNode();
  DaemonNode(const DaemonNode&) = delete;
  DaemonNode& operator=(const DaemonNode&) = delete;

  [[nodiscard]] std::string runtime() const;  // its runtime directory
  [[nodiscard]] std::string control_socket() const { return runtime() + "/control/headgate.sock"; }
  // Runs `headgate WORDS` to its end.
  [[nodiscard]] Result<void> command(std::vector<std::string> words) const;
  // run() starts `line` in that share under the limiter; run_unlimited(), outside all shares and without the limiter.
  [[nodiscard]] Result<load::Child> run(const std::string& share, std::vector<std::string> line) const;
  [[nodiscard]] Result<load::Child> run_unlimited(std::vector<std::string> line) const;

  // Returns true while it runs. Also drains its log, because a pipe has limited room.
  [[nodiscard]] bool running() const { return daemon_->running(); }
  [[nodiscard]] Result<sim::Truth> truth() const;
  // Ends the daemon as kill -9 does, and waits for that. What runs in its shares runs on.
  void kill();
  // Returns the values of one /metrics page's samples with lines that start with these strings (labels included), in
  // this order. Errors: no reply, or a sample is missing.
  [[nodiscard]] Result<std::vector<double>> metrics(const std::vector<std::string>& samples) const;
  // Returns the CPU time since its start of all threads, or of those with that name; 0 if /proc does not tell.
  [[nodiscard]] double cpu_seconds(std::string_view thread = {}) const;
  [[nodiscard]] std::uint64_t resident_bytes() const;

 private:
  DaemonNode(const Setting& setting, std::string name, std::string profile)
      : setting_(setting), case_(std::move(name)), profile_(std::move(profile)) {}
  [[nodiscard]] std::string simulated_node() const;  // path for `headgated --sim=PROFILE`
  [[nodiscard]] load::ChildSpec child(std::vector<std::string> line) const;

  const Setting& setting_;
  std::string case_, profile_;
  std::unique_ptr<load::Child> daemon_;
};

}  // namespace headgate::bench
