// The daemon's HTTP service: routes that read the latest snapshot and call the node's operations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "api/figures.hpp"
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
  // `history`: the store that keeps events across restarts, or nullptr; must outlive the service.
  Service(http::Loop& loop, node::Node& node, observe::Observer& observer, observe::EventLog& events,
          tenancy::EventStore* history, Tally& tally, const CurrentAccess& access);
  ~Service();

  // Adds the routes of api::routes() that the task channel, power and MPS do not answer: add theirs first. Errors: of
  // api::add_routes().
  [[nodiscard]] Result<void> add_routes(http::Router& router);
  // Returns the latest snapshot, or a new one if that is stale. Blocks: for the pool.
  [[nodiscard]] observe::NodeSnapshot fresh();
  // Makes earlier snapshots stale, because GPU settings have changed. Any thread.
  void changed();
  // Sets what to prepare before a program enters a share; it may add to the program's entry. `done` may be called once,
  // on any thread.
  using Prepare =
      std::function<void(node::Entry entry, const node::Caller& caller, std::function<void(Result<node::Entry>)> done)>;
  void prepare_entries(Prepare prepare);
  // Sets the function that lists, for /readyz, the shares that no process can enter.
  void watch_doors(std::function<std::vector<std::string>()> shut);
  // Sets the callback for when the driver is released for a minute so that this GPU ("all": any) can be reset; other
  // holders must release it too. Called on a pool thread.
  void watch_release(std::function<void(const std::string& uuid)> released);
  // Returns what /readyz would report now. Tests whether the database can be written.
  [[nodiscard]] bool is_ready();
  // Keeps events in this store from now on, if that was impossible at the start.
  void keep_history(tenancy::EventStore* history);
  // Makes earlier snapshots stale for new requests, because a process of a share has ended.
  void process_ended();
  // Ends all streams, so that the server can stop.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with work posted to the loop that may run after this object is gone
};

}  // namespace headgate::api
