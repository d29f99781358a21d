// One share on a private simulated GPU: runs programs in it, and compares the ledger with the truth.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "guest/ledger/pages.hpp"
#include "sim/truth.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {

class ComputeShare {
 public:
  explicit ComputeShare(std::string compute, std::string profile = "tiny", std::string program = "limiter_compute");
  ~ComputeShare();
  ComputeShare(const ComputeShare&) = delete;
  ComputeShare& operator=(const ComputeShare&) = delete;

  // Starts the program with these arguments as a tenant of the share; limited = false: without the limiter. `extra`
  // overrides the variables that make it a tenant.
  [[nodiscard]] std::unique_ptr<Program> start(std::initializer_list<std::string> words, bool limited = true,
                                               std::map<std::string, std::string> extra = {}) const;
  // The same with empty stdin, until it ends. Returns its output; expects status 0 and nothing on stderr.
  std::string run(std::initializer_list<std::string> words, bool limited = true) const;

  // Maps the pages like their owner; call it only after a program of the share has printed its first line.
  ledger::SharePages& pages();
  [[nodiscard]] ledger::ComputeAccount& account(unsigned device = 0) { return pages().usage->compute[device]; }
  // Waits until at least `at_least` launches were metered on device 0 by processes with slots; returns their number.
  std::uint64_t metered_launches(std::uint64_t at_least);
  // For the share's first process, once nothing waits any more: checks that each launch is in one bucket, and those
  // that waited are in the bucket of their wait.
  void expect_delays_of(std::uint64_t launches);
  void expect_metered(std::uint64_t launches);
  std::uint32_t live_slots();  // after the dead are reaped
  [[nodiscard]] sim::DeviceTruth truth(unsigned device = 0) const;

  // Returns node time, and GPU time held until then.
  [[nodiscard]] std::pair<double, double> look() const;

  // Reads the line in which a program says that all is launched, and how long it had no CPU.
  void expect_launched(Program& program);

  // Checks the account against the GPU time held. It may miss 1 % (or 5 us per bracket if that is more), plus what it
  // calls estimated. It may exceed the truth by the time, up to 200 ms, in which the program's threads were not
  // scheduled: a stalled thread closes no bracket. tests/exactness checks in virtual time that no more is charged.
  // Waits for the settler of running programs.
  void expect_exact(unsigned device = 0);

 private:
  Directory directory_;
  std::string compute_, profile_, program_;
  ledger::SharePages pages_;
  double stalled_ns_ = 0;
};

// Polls for up to 20 s; returns true if `condition` became true.
[[nodiscard]] bool comes_true(const std::function<bool()>& condition);

// Returns all further output of a program, line by line.
std::string rest_of(Program& program);

}  // namespace headgate::e2e
