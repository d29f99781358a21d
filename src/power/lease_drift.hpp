// Whether GPUs still have what a lease set: another program may have set them, and a driver that was reloaded has
// forgotten what it was told.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "power/lease.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

struct Drift {
  std::string what;       // what the GPUs have instead; empty: nothing else
  bool reloaded = false;  // the driver was reloaded, or a GPU reset, since the last look
};

// For one thread.
class DriftWatch {
 public:
  // `io` must outlive it.
  explicit DriftWatch(SettingsIo& io) : io_(io) {}
  // A GPU that does not answer is passed over.
  [[nodiscard]] Drift look(const Lease& lease);

 private:
  SettingsIo& io_;
  std::map<std::uint32_t, std::uint64_t> energy_mj_;  // by GPU, at the last look
};

}  // namespace headgate::power
