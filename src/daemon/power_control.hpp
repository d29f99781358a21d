// Power and clocks of the node's GPUs: queues, leases, which users may set which GPU, and reports of each write.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "api/power_routes.hpp"
#include "api/service.hpp"
#include "api/zeusd.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "http/loop.hpp"
#include "install/devices.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "power/control_queues.hpp"

namespace headgate::daemon {

// For the loop's thread, except where stated.
class PowerControl {
 public:
  // Checks what a start would reject in the configuration: files, names of users and groups. Errors: usage, denied.
  [[nodiscard]] static Result<void> check(const config::Config& config);

  // `source`: of the driver; `lease_file`: where leases are kept; the others must outlive it. Errors: of check(), of
  // the driver and of reading the leases.
  [[nodiscard]] static Result<std::unique_ptr<PowerControl>> start(const config::Config& config,
                                                                   const install::Source& source,
                                                                   const std::string& lease_file, node::Node& node,
                                                                   const api::CurrentAccess& access,
                                                                   observe::EventLog& events);
  ~PowerControl();
  PowerControl(const PowerControl&) = delete;

  // Returns the handler of /v1/power. `service` must outlive it.
  [[nodiscard]] api::PowerRoutes& routes(http::Loop& loop, const config::Config& config, api::Service& service);

  // Used by the API of zeusd.
  [[nodiscard]] power::ControlQueues& queues();
  [[nodiscard]] Result<void> may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                                       const power::Command& command) const;
  // Saves what a client's write changes, in a session that ends with its process or (`login`) with the leader of its
  // login session. Over TCP no process is known, and the setting stays.
  void save_before(const api::ZeusdCaller& caller, bool login, const std::vector<std::uint32_t>& gpus,
                   const power::Command& command, std::function<void(Result<void>)> begin);
  [[nodiscard]] bool reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const;

  // Takes over the grants of a configuration that was read again. Errors: as of check(); then the former ones stay.
  [[nodiscard]] Result<void> allow(const config::Config& config);
  // Gives up the persistence mode of the GPU ("all": of all) and releases the driver, so that it can be reset; then
  // restores everything. Any thread but the loop's: blocks for calls into the driver.
  void release_driver(const std::string& uuid, std::chrono::seconds pause);
  // Leases compute mode exclusive process until this process ends; does nothing if it has the lease. `done` is called
  // once, on another thread. Errors: of LeaseKeeper::create().
  void hold_exclusive(const std::string& uuid, std::uint32_t holder_pid, std::function<void(Result<void>)> done);
  // Call it once a second.
  void tick();
  // Restores what leases have changed. Returns false if a call into the driver hangs.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience);

 private:
  struct Impl;
  explicit PowerControl(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::daemon
