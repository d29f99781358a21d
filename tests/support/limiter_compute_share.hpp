// One share on a simulated GPU of its own: programs run in it, and what the ledger says of them beside what really
// happened.
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

  // The program with these words, a tenant of the share; limited = false: without the limiter. `extra` goes over the
  // variables that make it one.
  [[nodiscard]] std::unique_ptr<Program> start(std::initializer_list<std::string> words, bool limited = true,
                                               std::map<std::string, std::string> extra = {}) const;
  // The same to its end, without anything on its stdin: what it printed. Expects status 0 and nothing on stderr.
  std::string run(std::initializer_list<std::string> words, bool limited = true) const;

  // Mapped as its owner does; only after a program of the share has printed its first line.
  ledger::SharePages& pages();
  [[nodiscard]] ledger::ComputeAccount& account(unsigned device = 0) { return pages().usage->compute[device]; }
  // How many launches were metered on device 0, of processes that still have their slots; waits for at least so many.
  std::uint64_t metered_launches(std::uint64_t at_least);
  // Of the share's first process, when nothing waits any more: each launch is in one bucket, those that waited in that
  // of their wait.
  void expect_delays_of(std::uint64_t launches);
  void expect_metered(std::uint64_t launches);
  std::uint32_t live_slots();  // after the dead are reaped
  [[nodiscard]] sim::DeviceTruth truth(unsigned device = 0) const;

  // Node time, and GPU time held until then.
  [[nodiscard]] std::pair<double, double> look() const;

  // Reads the line with which a program says that all is launched, and for how long it had no processor.
  void expect_launched(Program& program);

  // Expects that the account lacks nothing of what the GPU was held: at most 1 %, or 5 us a bracket where that is more,
  // and what the account itself calls estimated. It may hold more than that by the time for which the machine did not
  // run the program's threads, since a thread that does not run closes no bracket: up to 200 ms. That no more is
  // charged in virtual time is asserted in tests/exactness. Waits for the settler of programs that run.
  void expect_exact(unsigned device = 0);

 private:
  Directory directory_;
  std::string compute_, profile_, program_;
  ledger::SharePages pages_;
  double stalled_ns_ = 0;
};

// Whether it is so within 20 s.
[[nodiscard]] bool comes_true(const std::function<bool()>& condition);

// Everything a program prints until it ends, line by line.
std::string rest_of(Program& program);

}  // namespace headgate::e2e
