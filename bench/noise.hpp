// What the machine itself did while something was measured: no figure is read without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "load/histogram.hpp"

namespace headgate::bench {

struct Noise {
  load::Histogram lateness_ns;  // how long after its time a thread asleep until a given moment ran (each millisecond)
  double steal_percent = -1;    // of all CPU time, /proc/stat; -1 where it cannot be read
  double busy_percent = -1;     // not idle, ours included
  std::int64_t longest_gap_ns = 0;  // the longest time a spinning thread was not running, in one second
  unsigned cpus = 0;
};

// A second of a spinning thread: the longest gap between two of its clock readings.
[[nodiscard]] std::int64_t longest_gap_ns();

// Samples from construction to stop(); one thread that sleeps, 1000 wake-ups a second.
class NoiseSampler {
 public:
  NoiseSampler();
  ~NoiseSampler();
  NoiseSampler(const NoiseSampler&) = delete;
  NoiseSampler& operator=(const NoiseSampler&) = delete;

  // How late the sampler's thread ran, summed by 10 ms bucket of CLOCK_MONOTONIC, from first_bucket on. Only lateness
  // above kOrdinaryLatenessNs counts: less is what any wake-up costs.
  struct Late {
    std::int64_t first_bucket = 0;
    std::vector<std::int64_t> ns;
    [[nodiscard]] std::int64_t at(std::int64_t bucket) const;
  };

  [[nodiscard]] Late late() const;
  [[nodiscard]] Noise stop();

 private:
  void sample();

  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Late late_;
  load::Histogram lateness_;
  std::string stat_before_;
  std::thread thread_;
};

inline constexpr std::int64_t kOrdinaryLatenessNs = 200'000;

// The parts of CPU time between two readings of /proc/stat's first line, in percent; -1 each when a line is not one.
struct CpuParts {
  double steal_percent = -1, busy_percent = -1;
};
[[nodiscard]] CpuParts cpu_parts(const std::string& before, const std::string& after);

}  // namespace headgate::bench
