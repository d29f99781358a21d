// Runs the arbiter's thread and one tenant socket per share in a separate process, which a test can kill. Real tenants
// run in the shares on a simulated node, and the node reports their true GPU time. This is the part of the daemon that
// the arbiter's tests need.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/ledger/pages.hpp"
#include "schedule/terms.hpp"
#include "sim/truth.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {

struct ShareWish {
  std::uint32_t weight = 100, priority_class = 1;
  std::uint32_t guarantee_ppm = 0, ceiling_ppm = ledger::kWholeGpu;
  std::string gang = {};
  std::vector<unsigned> gpus = {0};
};

class ArbiterNode {
 public:
  explicit ArbiterNode(std::string profile = "h200");
  ~ArbiterNode();
  ArbiterNode(const ArbiterNode&) = delete;
  ArbiterNode& operator=(const ArbiterNode&) = delete;

  // Call it before start().
  void share(const std::string& name, const ShareWish& wish = {});
  void start(schedule::Policy policy = schedule::Policy::fair);
  void kill_arbiter();                    // SIGKILL
  void stop_arbiter(bool stopped) const;  // SIGSTOP, SIGCONT

  // Starts headgate-load in that share; it runs until this object ends.
  Program& load(const std::string& share, const std::vector<std::string>& words);
  // Starts any test program in that share.
  [[nodiscard]] std::unique_ptr<Program> run(const std::string& share, const std::vector<std::string>& line) const;
  [[nodiscard]] Program& tenant(std::size_t index) { return *tenants_.at(index); }

  // Truth: percent of the next `milliseconds` during which each tenant held the GPU, in the order in which they were
  // started.
  [[nodiscard]] std::vector<double> split(int milliseconds, unsigned device = 0) const;
  [[nodiscard]] sim::Truth truth() const;
  [[nodiscard]] std::uint64_t held_ns(const Program& tenant, unsigned device = 0) const;
  // Waits until each tenant has held the GPU for 5 ms.
  void all_at_work(unsigned device = 0) const;
  [[nodiscard]] ledger::SharePages& pages(const std::string& share) { return shares_.at(share).pages; }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }

 private:
  struct Share {
    ShareWish wish;
    ledger::SharePages pages;
  };
  [[nodiscard]] std::map<std::string, std::string> environment() const;
  [[noreturn]] void serve(schedule::Policy policy);

  Directory directory_;
  std::string profile_;
  std::vector<std::string> gpus_;
  std::map<std::string, Share> shares_;
  std::vector<std::unique_ptr<Program>> tenants_;
  pid_t arbiter_ = -1;
};

void rest_ms(int milliseconds);

// Polls until `holds` is true; returns false if it never was.
template <typename Condition>
[[nodiscard]] bool eventually(Condition holds, int tries = 750) {
  for (int i = 0; i < tries; ++i) {
    if (holds()) return true;
    rest_ms(20);
  }
  return false;
}

}  // namespace headgate::e2e
