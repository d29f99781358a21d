// Detects that GPUs no longer have a lease's settings, because another program changed them or the driver was reloaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "power/lease.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

struct Drift {
  std::string what;       // the differing values; empty: none
  bool reloaded = false;  // the driver was reloaded or a GPU reset since the last call
};

// Single-threaded.
class DriftWatch {
 public:
  // `io` must outlive it.
  explicit DriftWatch(SettingsIo& io) : io_(io) {}
  // Skips GPUs that do not answer.
  [[nodiscard]] Drift look(const Lease& lease);

 private:
  SettingsIo& io_;
  std::map<std::uint32_t, std::uint64_t> energy_mj_;  // by GPU, at the last call
};

}  // namespace headgate::power
