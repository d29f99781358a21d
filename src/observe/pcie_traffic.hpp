// Measures the traffic of the GPUs' PCIe links. NVML watches a link for 20 ms each way and blocks the caller meanwhile:
// so one GPU is asked at a time, at most once a second.
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
