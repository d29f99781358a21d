// The built headgated on a simulated node of its own, and programs in its shares, entered by `headgate run` as a user
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
  // `profile`: one of the simulator's; `words`: more of its command line, where {runtime} stands for its runtime
  // directory. Answers its API when this returns. Errors: it cannot be started, or is not ready in 20 s.
  [[nodiscard]] static Result<std::unique_ptr<DaemonNode>> start(const Setting& setting, const std::string& profile,
                                                                 std::vector<std::string> words = {});
  ~DaemonNode();
  DaemonNode(const DaemonNode&) = delete;
  DaemonNode& operator=(const DaemonNode&) = delete;

  [[nodiscard]] std::string runtime() const;  // its runtime directory
  [[nodiscard]] std::string control_socket() const { return runtime() + "/control/headgate.sock"; }
  // `headgate WORDS`, to its end.
  [[nodiscard]] Result<load::Done> command(std::vector<std::string> words) const;
  // `line` in that share, under the limiter; and the same program beside all shares, without the limiter.
  [[nodiscard]] Result<load::Child> run(const std::string& share, std::vector<std::string> line) const;
  [[nodiscard]] Result<load::Child> run_unlimited(std::vector<std::string> line) const;

  // Whether it runs; takes in what it has logged, which a pipe does not hold without end.
  [[nodiscard]] bool running() const { return daemon_->running(); }
  [[nodiscard]] Result<sim::Truth> truth() const;
  // Of one page of the daemon's /metrics, the samples whose lines begin so, labels included, in that order. Errors: the
  // daemon does not answer, or has one of them not.
  [[nodiscard]] Result<std::vector<double>> metrics(const std::vector<std::string>& samples) const;
  // Processor time since its start of all of its threads, or of those of that name. 0 where /proc does not say.
  [[nodiscard]] double cpu_seconds(std::string_view thread = {}) const;
  [[nodiscard]] std::uint64_t resident_bytes() const;

 private:
  DaemonNode(const Setting& setting, std::string name, std::string profile)
      : setting_(setting), case_(std::move(name)), profile_(std::move(profile)) {}
  [[nodiscard]] std::string simulated_node() const;  // where `headgated --sim=PROFILE` has it
  [[nodiscard]] load::ChildSpec child(std::vector<std::string> line) const;

  const Setting& setting_;
  std::string case_, profile_;
  std::unique_ptr<load::Child> daemon_;
};

}  // namespace headgate::bench
