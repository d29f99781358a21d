// The API of zeusd inside headgated: who may set which GPU is decided by shares and grants, and each write is an event.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "daemon/options.hpp"
#include "http/loop.hpp"
#include "http/router.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "power/permission.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ZeusdListener {
 public:
  // Whether the command line or the configuration asks for it.
  [[nodiscard]] static bool is_wanted(const config::Config& config, const Options& options);
  // What a start would find wrong with the configuration: files, names of users and groups, addresses. Errors: usage, denied.
  [[nodiscard]] static Result<void> check(const config::Config& config);

  // `library`: the driver's; `lease_file`: where leases are kept; the other arguments must outlive it. Errors: of check(), of the driver and of the sockets.
  [[nodiscard]] static Result<std::unique_ptr<ZeusdListener>> start(http::Loop& loop, const config::Config& config,
                                                                    const Options& options, const std::string& library,
                                                                    const std::string& lease_file, node::Node& node,
                                                                    const api::CurrentAccess& access,
                                                                    observe::EventLog& events);
  ~ZeusdListener();
  ZeusdListener(const ZeusdListener&) = delete;

  // Adds /v1/power/leases to the routes of the control socket.
  void add_lease_routes(http::Router& router);
  // Grants of a configuration that was read again. Errors: as of check(); then the former ones stay.
  [[nodiscard]] Result<void> allow(const config::Config& config);
  // Gives up the persistence mode of the GPU ("all": of all) and lets go of the driver, so that it can be reset; afterwards everything
  // is put back. Any thread but the loop's: blocks for calls into the driver.
  void release_driver(const std::string& uuid, std::chrono::seconds pause);
  // Once a second.
  void tick();
  // Where it answers, for the log.
  [[nodiscard]] const std::string& where() const;
  // Puts the values of leases back, closes sockets and streams. False: a call into the driver hangs.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience);

 private:
  struct Impl;
  explicit ZeusdListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::daemon
