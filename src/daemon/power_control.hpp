// Power and clocks of the node's GPUs: their queues and leases, started, served and ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/power_routes.hpp"
#include "api/service.hpp"
#include "api/zeusd.hpp"
#include "base/result.hpp"
#include "daemon/context.hpp"
#include "daemon/power_permissions.hpp"
#include "daemon/power_reports.hpp"
#include "node/node.hpp"
#include "power/control_queues.hpp"
#include "power/lease_keeper.hpp"
#include "power/nvml_manager.hpp"

namespace headgate::daemon {

// For the loop's thread, except where stated.
class PowerControl {
 public:
  // Checks what a start would reject in the configuration: grants, the site's own settings, command overrides. Errors:
  // usage; of the file of overrides.
  [[nodiscard]] static Result<void> check(const config::Config& config);
  // Both must outlive it. Errors: of check(), of the driver and of reading the leases.
  [[nodiscard]] static Result<std::unique_ptr<PowerControl>> start(Context& context, const node::Node& node);
  PowerControl(const PowerControl&) = delete;

  // Adds the routes of /v1/power. This and `service` must outlive them.
  void add_routes(http::Router& router, api::Service& service);
  [[nodiscard]] power::ControlQueues& queues() { return *queues_; }
  [[nodiscard]] const PowerPermissions& permissions() const { return *permissions_; }

  // Saves what a client's write changes, in a session that ends with its process or (`login`) with the leader of its
  // login session. Over TCP no process is known, and the setting stays.
  void save_before(const api::ZeusdCaller& caller, bool login, const std::vector<std::uint32_t>& gpus,
                   const power::Command& command, std::function<void(Result<void>)> begin);

  // Takes over the grants of a configuration that was read again. Errors: as of check(); then the former ones stay.
  [[nodiscard]] Result<void> allow(const config::Config& config);
  // Gives up the persistence mode of the GPU ("all": of all) and releases the driver, so that it can be reset; then
  // restores everything. Any thread but the loop's: blocks for calls into the driver.
  void release_driver(const std::string& uuid, std::chrono::seconds pause);
  // Leases compute mode exclusive process until this process ends; does nothing if it has the lease. `done` is called
  // once, on another thread. Errors: of LeaseKeeper::create().
  void hold_exclusive(const std::string& uuid, std::uint32_t holder_pid, std::function<void(Result<void>)> done);
  // Call it once a second.
  void tick() { reports_.tick(*queues_); }
  // Restores what leases have changed. Returns false if a call into the driver hangs.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience) {
    return leases_->stop(patience) && queues_->stops_within(patience);
  }

 private:
  explicit PowerControl(Context& context) : context_(context), reports_(context.events) {}
  [[nodiscard]] Result<void> start_queues();
  [[nodiscard]] Result<void> start_leases(const std::string& file);
  [[nodiscard]] Result<void> apply_site();

  Context& context_;
  PowerReports reports_;
  std::vector<power::Profile> profiles_;
  std::shared_ptr<power::NvmlSession> driver_;    // shared with the managers of its GPUs
  std::unique_ptr<power::ControlQueues> queues_;  // not optional: its workers read it while it is destroyed
  std::optional<power::LeaseKeeper> leases_;
  std::optional<PowerPermissions> permissions_;
};

}  // namespace headgate::daemon
