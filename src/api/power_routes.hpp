// /v1/power of the control socket: current GPU settings, persistent settings, and leases, which end with their holder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "http/loop.hpp"
#include "http/router.hpp"
#include "observe/observer.hpp"
#include "power/lease_keeper.hpp"
#include "power/request.hpp"

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

// For the loop's thread. Must outlive the server that runs its routes.
class PowerRoutes {
 public:
  PowerRoutes(http::Loop& loop, PowerSources sources);
  ~PowerRoutes();
  void add_routes(http::Router& router);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with replies that arrive after this object is gone
};

}  // namespace headgate::api
