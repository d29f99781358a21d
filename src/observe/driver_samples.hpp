// How much of a GPU's SMs worked, by the driver's performance monitoring (GPM) of Hopper and newer cards. It compares
// two samples that its caller keeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nvml/library.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

inline constexpr std::chrono::milliseconds kBetweenSamples(500);

// Not thread-safe.
class SmActivity {
 public:
  // Samples each GPU with an old enough last sample, and fills sm_active_ratio with what is known. Empty if the card,
  // the driver or its permissions give no such figure.
  void measure(const nvml::Library& nvml, std::vector<snapshot::Gpu>& gpus, std::chrono::steady_clock::time_point now);
  // Frees the samples, before `nvml` is closed.
  void forget(const nvml::Library& nvml);

 private:
  struct Known {
    void *last = nullptr, *spare = nullptr;  // nvmlGpmSample_t
    bool sampled = false;                    // `last` holds a sample
    std::optional<std::chrono::steady_clock::time_point> asked;
    std::optional<double> ratio;
    bool lacking = false;  // final: not asked again before forget()
  };
  static void sample(const nvml::Library& nvml, unsigned index, Known& known,
                     std::chrono::steady_clock::time_point now);
  std::map<std::string, Known> known_;  // by GPU
};

// Measures the traffic of the GPUs' PCIe links. NVML watches a link for 20 ms each way and blocks the caller meanwhile:
// so one GPU is asked at a time, at most once a second.

inline constexpr std::chrono::seconds kBetweenTrafficReadings(1);

// Not thread-safe.
class PcieTraffic {
 public:
  // Asks the next GPU in turn, if there is one and the last was asked a second ago.
  void measure(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
               std::chrono::steady_clock::time_point now);
  // Writes what is known of each into its fields.
  void fill(std::vector<snapshot::Gpu>& gpus) const;

 private:
  struct Rates {
    std::optional<std::uint64_t> rx_bytes_per_second, tx_bytes_per_second;
  };
  std::map<std::string, Rates> known_;  // by GPU
  std::size_t next_ = 0;                // in the list of GPUs
  std::optional<std::chrono::steady_clock::time_point> measured_;
};

}  // namespace headgate::observe
