// The demo's node: a simulated GPU in a private directory, and the real headgated on it.
#pragma once

#include <string>

#include "base/result.hpp"
#include "demo/demo_tenants.hpp"
#include "demo/tenants.hpp"
#include "http/endpoint.hpp"

namespace headgate::demo {

class DemoNode {
 public:
  // Returns when the daemon is ready. Errors: the daemon's own message if it did not start.
  [[nodiscard]] static Result<DemoNode> start();

  [[nodiscard]] const http::Endpoint& daemon() const { return daemon_; }
  [[nodiscard]] std::string directory() const { return files_.node(); }  // the simulated node's

  // Creates the tenant's share, as `headgate share create` does.
  [[nodiscard]] Result<void> make_share(const DemoTenant& tenant) const;
  // Starts `headgate run --share NAME -- headgate-load ...`.
  [[nodiscard]] Result<load::Child> start_tenant(const DemoTenant& tenant) const;
  // Checks that the daemon still runs. Errors: failed, with its output, if it has ended.
  [[nodiscard]] Result<void> check();
  // Asks the daemon to end; the destructor removes the directory.
  void end();

 private:
  DemoNode(PrivateNode files, load::Child headgated, http::Endpoint daemon)
      : files_(std::move(files)), headgated_(std::move(headgated)), daemon_(std::move(daemon)) {}

  PrivateNode files_;
  load::Child headgated_;  // if still running, killed before its files are removed
  http::Endpoint daemon_;
};

}  // namespace headgate::demo
