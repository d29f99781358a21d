// How much of a GPU's SMs worked, by the driver's performance monitoring (GPM) of Hopper and newer cards. It compares
// two samples that its caller keeps.
#pragma once

#include <chrono>
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

}  // namespace headgate::observe
