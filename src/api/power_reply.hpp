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

// One GPU of the answer, beside what the snapshot says of it.
struct GpuPower {
  const snapshot::Gpu* gpu = nullptr;
  power::ClockRange gpu_clocks, mem_clocks;  // locked; {0, 0}: none
  std::size_t waiting = 0;                   // commands in its queue
};

[[nodiscard]] std::string power_json(const std::vector<GpuPower>& gpus, const std::vector<power::Lease>& leases,
                                     const std::string& drift, const std::string& at_start);
[[nodiscard]] std::string profiles_json(const std::vector<power::Profile>& profiles);
// 200, or the worst status of the GPUs with that GPU's error beside the list.
[[nodiscard]] http::Response outcomes_response(const std::vector<power::GpuOutcome>& outcomes, bool dry_run);

}  // namespace headgate::api
