// The daemon's HTTP face: routes that look at the latest snapshot and call the node's operations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "api/figures.hpp"
#include "api/mps_routes.hpp"
#include "api/power_routes.hpp"
#include "channel/channel.hpp"
#include "http/loop.hpp"
#include "http/router.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "observe/observer.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::api {

// Must outlive the server that runs its routes. For the loop's thread.
class Service {
 public:
  // `history`: where events are kept over restarts, or nullptr; ends after the service.
  Service(http::Loop& loop, node::Node& node, observe::Observer& observer, observe::EventLog& events,
          tenancy::EventStore* history, Tally& tally, const CurrentAccess& access);
  ~Service();

  // One for each row of api::routes(); those of the channel are its own to answer.
  // `power`: answers the rows of /v1/power, or nullptr: they are not there.
  // `mps`: the same of /v1/mps.
  [[nodiscard]] http::Router routes(channel::Channel& channel, PowerRoutes* power, MpsRoutes* mps = nullptr);
  // The latest snapshot, or another where that is stale. Blocks: for the pool.
  [[nodiscard]] observe::NodeSnapshot fresh();
  // What GPUs are set to has changed: snapshots of before are stale. Any thread.
  void changed();
  // What has to be made ready before a program enters a share, and may add to what the program is told. `done` may be
  // called once, on any thread.
  using Prepare =
      std::function<void(node::Entry entry, const node::Caller& caller, std::function<void(Result<node::Entry>)> done)>;
  void prepare_entries(Prepare prepare);
  // How readiness is told of shares that nobody can enter.
  void watch_doors(std::function<std::vector<std::string>()> shut);
  // Called, on a thread of the pool, when the driver is let go of for a minute, so that this GPU ("all": any) can be
  // reset: others that have it open let go of it too.
  void watch_release(std::function<void(const std::string& uuid)> released);
  // Whether /readyz would say so now. It tries whether the database can be written.
  [[nodiscard]] bool is_ready();
  // Events are kept from now on, which could not be before.
  void keep_history(tenancy::EventStore* history);
  // A process of a share has ended: snapshots of before are shown to nobody who asks from now on.
  void process_ended();
  // Ends all streams, so that the server can stop.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with work that is posted to the loop and may run after we are gone
};

}  // namespace headgate::api
