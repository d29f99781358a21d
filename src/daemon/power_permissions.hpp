// Which callers may set power and clocks of which GPU. For the loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/access.hpp"
#include "api/zeusd.hpp"
#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/node.hpp"
#include "power/control_queues.hpp"
#include "power/lease_keeper.hpp"
#include "power/permission.hpp"
#include "power/request.hpp"

namespace headgate::daemon {

class PowerPermissions {
 public:
  // All must outlive it.
  PowerPermissions(const node::Node& node, const api::CurrentAccess& access, const power::ControlQueues& queues,
                   const power::LeaseKeeper& leases, std::vector<power::Grant> grants)
      : node_(node), access_(access), queues_(queues), leases_(leases), grants_(std::move(grants)) {}

  void set_grants(std::vector<power::Grant> grants) { grants_ = std::move(grants); }

  // All return the reason why not. may_write(): a command of zeusd's API; may_set(): each of the settings on each of
  // the GPUs; may_hold(): wait for the end of that process.
  [[nodiscard]] Result<void> may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                                       const power::Command& command) const;
  [[nodiscard]] Result<void> may_set(const http::Peer& peer, const node::Caller& caller,
                                     const power::SettingsByGpu& settings, bool by_lease) const;
  [[nodiscard]] static Result<void> may_hold(const node::Caller& caller, std::uint32_t pid);
  [[nodiscard]] bool reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const;

 private:
  [[nodiscard]] power::Writer writer_of(const api::ZeusdCaller& caller) const;
  [[nodiscard]] power::GpuUse use_of(std::uint32_t gpu, bool with_names) const;
  [[nodiscard]] Result<void> is_free(std::uint32_t gpu, const power::Command& command,
                                     std::optional<std::uint32_t> uid) const;

  const node::Node& node_;
  const api::CurrentAccess& access_;
  const power::ControlQueues& queues_;
  const power::LeaseKeeper& leases_;
  std::vector<power::Grant> grants_;
};

}  // namespace headgate::daemon
