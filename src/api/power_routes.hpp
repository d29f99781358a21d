// /v1/power of the control socket: current GPU settings, persistent settings, and leases, which end with their holder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "http/loop.hpp"
#include "http/message.hpp"
#include "http/router.hpp"
#include "observe/observer.hpp"
#include "power/lease.hpp"
#include "power/lease_keeper.hpp"
#include "power/request.hpp"
#include "power/settings_io.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

struct PowerSources {
  power::ControlQueues& queues;
  power::LeaseKeeper& keeper;
  const CurrentAccess& access;
  // Checks whether the caller may make these settings. `by_lease`: conflicts with other leases are left to the lease
  // keeper to refuse. On the loop's thread.
  std::function<Result<void>(const http::Peer&, const node::Caller&, const power::SettingsByGpu&, bool by_lease)>
      may_set;
  // Checks whether the caller may name this process as a lease's holder. On the loop's thread.
  std::function<Result<void>(const node::Caller&, std::uint32_t pid)> may_hold;
  std::function<observe::NodeSnapshot()> fresh;           // may block: for the pool
  std::function<void()> changed;                          // makes earlier snapshots stale; any thread
  std::function<std::vector<power::Profile>()> profiles;  // on the loop's thread
  std::string drift;                                      // report or reapply
  std::string at_start;  // the profile that a reset applies; empty: the driver's defaults
};

// For the loop's thread; the handlers must run on `loop`.
void add_power_routes(http::Router& router, http::Loop& loop, PowerSources sources);

// The bodies. One GPU of the reply, besides what the snapshot holds.
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
