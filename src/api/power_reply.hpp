// The bodies of /v1/power.
#pragma once

#include <string>
#include <vector>

#include "http/message.hpp"
#include "power/lease.hpp"
#include "power/request.hpp"
#include "power/set_now.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

// One GPU of the reply, besides what the snapshot holds.
struct GpuPower {
  const snapshot::Gpu* gpu = nullptr;
  power::ClockRange gpu_clocks, mem_clocks;  // locked ranges; {0, 0}: not locked
  std::size_t waiting = 0;                   // commands queued
};

[[nodiscard]] std::string power_json(const std::vector<GpuPower>& gpus, const std::vector<power::Lease>& leases,
                                     const std::string& drift, const std::string& at_start);
[[nodiscard]] std::string profiles_json(const std::vector<power::Profile>& profiles);
// Returns 200, or the worst status of any GPU, with that GPU's error beside the list.
[[nodiscard]] http::Response outcomes_response(const std::vector<power::GpuOutcome>& outcomes, bool dry_run);

}  // namespace headgate::api
