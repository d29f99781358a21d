#include "power/lease_drift.hpp"

namespace headgate::power {
namespace {

const Caller kLooks{.text = "the daemon's look at leases", .uid = {}, .quiet = true};

}  // namespace

Drift DriftWatch::look(const Lease& lease) {
  Drift drift;
  for (const auto& [uuid, wanted] : lease.wanted) {
    const auto gpu = io_.index_of(uuid);
    const auto now = gpu ? io_.read(*gpu, wanted, kLooks) : fail(ErrorCode::not_found, "");
    if (!now) continue;
    // The counter restarts with the driver.
    if (const auto energy = io_.queues().gpu(*gpu).read(Operation::get_cumulative_energy)) {
      drift.reloaded = drift.reloaded || *energy < energy_mj_[*gpu];
      energy_mj_[*gpu] = *energy;
    }
    std::string has;
    const auto has_now = controls_of(*now), wants = controls_of(wanted);
    for (std::size_t i = 0; i < wants.size(); ++i) {
      if (has_now[i] == wants[i]) continue;
      has += (has.empty() ? "" : ", ") + wants[i].name + " " + has_now[i].value + ", not " + wants[i].value;
    }
    if (has.empty()) continue;
    drift.what += (drift.what.empty() ? "" : "; ") + std::string("GPU ") + std::to_string(*gpu) + " has " + has;
  }
  return drift;
}

}  // namespace headgate::power
