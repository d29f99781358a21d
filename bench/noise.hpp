// Noise of the machine during a measurement. Every figure must be read together with it.
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
  load::Histogram lateness_ns;      // lateness of a thread that sleeps until each millisecond
  double steal_percent = -1;        // of all CPU time, from /proc/stat; -1 if unreadable
  double busy_percent = -1;         // not idle, including us
  std::int64_t longest_gap_ns = 0;  // longest time in one second that a spinning thread was not running
  unsigned cpus = 0;
};

// Spins for a second and returns the longest gap between two clock readings.
[[nodiscard]] std::int64_t longest_gap_ns();

// Samples from construction to stop(), with one thread that wakes up 1000 times a second.
class NoiseSampler {
 public:
  NoiseSampler();
  ~NoiseSampler();
  NoiseSampler(const NoiseSampler&) = delete;
  NoiseSampler& operator=(const NoiseSampler&) = delete;

  // Lateness of the sampler's thread, summed per 10 ms bucket of CLOCK_MONOTONIC, from first_bucket on. Counts only
  // lateness above kOrdinaryLatenessNs, because any wake-up is a little late.
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

// Shares of CPU time between two readings of /proc/stat's first line, in percent; -1 each if a line is invalid.
struct CpuParts {
  double steal_percent = -1, busy_percent = -1;
};
[[nodiscard]] CpuParts cpu_parts(const std::string& before, const std::string& after);

}  // namespace headgate::bench
