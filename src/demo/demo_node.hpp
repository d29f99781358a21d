// The demo's node: a simulated GPU in a directory of its own, and the real headgated over it.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "demo/demo_tenants.hpp"
#include "demo/tenants.hpp"
#include "http/endpoint.hpp"

namespace headgate::demo {

class DemoNode {
 public:
  // Returns when the daemon is ready. Errors: its own words, where it did not start.
  [[nodiscard]] static Result<DemoNode> start();

  [[nodiscard]] const http::Endpoint& daemon() const { return daemon_; }
  [[nodiscard]] std::string directory() const { return files_.node(); }  // of the simulated node

  // Makes the tenant's share, as `headgate share create` does.
  [[nodiscard]] Result<void> make_share(const DemoTenant& tenant) const;
  // `headgate run --share NAME -- headgate-load ...`.
  [[nodiscard]] Result<load::Child> start_tenant(const DemoTenant& tenant) const;
  // Errors: failed, with what it said, where the daemon has ended.
  [[nodiscard]] Result<void> check();
  // Asks the daemon to end; the directory goes with this object.
  void end();

 private:
  DemoNode(PrivateNode files, load::Child headgated, http::Endpoint daemon)
      : files_(std::move(files)), headgated_(std::move(headgated)), daemon_(std::move(daemon)) {}

  PrivateNode files_;
  load::Child headgated_;  // killed, where it still runs, before its files go
  http::Endpoint daemon_;
};

}  // namespace headgate::demo
