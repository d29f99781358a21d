// The sockets through which limiters register, the processes that came in by them, and their shares' doorbells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/context.hpp"
#include "daemon/node_host.hpp"
#include "daemon/scheduler_channel.hpp"
#include "node/unadmitted.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/registration_server.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ShareListeners {
 public:
  // Called when a process has joined a share, and when one has ended.
  struct Hooks {
    std::function<void(const tenancy::TenantProcess&)> joined, left;
  };

  // All references must outlive it.
  ShareListeners(Context& context, NodeHost& node, SchedulerChannel& scheduler, Hooks hooks);
  ShareListeners(const ShareListeners&) = delete;

  // Opens the sockets of all shares, and takes up the processes that a former daemon left.
  void open();
  // Opens the socket of a new share.
  void add(const std::string& share);
  void remove(const std::string& share);
  // Call it when the share admits other processes than before.
  void reconsider(const std::string& share) { sockets_.reconsider(share); }
  // Returns the shares that no process can enter.
  [[nodiscard]] std::vector<std::string> shut() const { return sockets_.shut(); }

  // All three each second. Sockets are opened that could not be opened, were removed, or shut by themselves; processes
  // that nothing asked the scheduler about are reported; doorbells are replaced that a process has shut down.
  void open_shut();
  void adopt() { processes_.adopt(); }
  void tell_unadmitted();
  void replace_bells();

 private:
  [[nodiscard]] tenancy::Processes::Events process_events();
  [[nodiscard]] tenancy::RegistrationServer::Events socket_events();
  void left(const tenancy::TenantProcess& tenant);

  Context& context_;
  NodeHost& node_;
  SchedulerChannel& scheduler_;
  const Hooks hooks_;
  tenancy::Processes processes_;
  tenancy::RegistrationServer sockets_;
  node::Unadmitted unadmitted_;
  std::string trouble_;  // last reported
};

}  // namespace headgate::daemon
