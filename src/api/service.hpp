// The daemon's HTTP face: routes that look at the latest picture and call the node's verbs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/figures.hpp"
#include "channel/channel.hpp"
#include "http/loop.hpp"
#include "http/router.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "observe/observer.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::api {

struct Access {
  std::uint32_t daemon_uid = 0;            // its own user administers it
  std::optional<std::uint32_t> admin_gid;  // the control group
  std::optional<std::string> token;        // over TCP: who shows it is an administrator
  std::size_t streams_per_user = 32;       // of events, followed at once; TCP counts as one user
};

// The access of this moment: it changes when the configuration is read again. Thread-safe.
class CurrentAccess {
 public:
  // Shared: who asks goes on by what he began with.
  [[nodiscard]] std::shared_ptr<const Access> now() const {
    const std::scoped_lock lock(mutex_);
    return access_;
  }
  void set(Access access) {
    auto fresh = std::make_shared<const Access>(std::move(access));
    const std::scoped_lock lock(mutex_);
    access_ = std::move(fresh);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Access> access_ = std::make_shared<const Access>();
};

// Over a Unix socket by the peer's credentials. Over TCP nobody is known: with the token an administrator, without it, or
// with a wrong one, an error (denied) where a token is set, else a stranger that sees totals.
[[nodiscard]] Result<node::Caller> caller_of(const http::Request& request, const Access& access);

// Who may speak for a client of the task channel: administrators. `access` must outlive the channel.
[[nodiscard]] channel::Authorise administrators(const CurrentAccess& access);

// Must outlive the server that runs its routes. For the loop's thread.
class Service {
 public:
  // `history`: where events are kept over restarts, or nullptr; ends after the service.
  Service(http::Loop& loop, node::Node& node, observe::Observer& observer, observe::EventLog& events,
          tenancy::EventStore* history, Tally& tally, const CurrentAccess& access);
  ~Service();

  // One for each row of api::routes(); those of the channel are its own to answer.
  [[nodiscard]] http::Router routes(channel::Channel& channel);
  // How readiness is told of shares that nobody can enter.
  void watch_doors(std::function<std::vector<std::string>()> shut);
  // A process of a share has ended: pictures of before are shown to nobody who asks from now on.
  void process_ended();
  // Ends all streams, so that the server can stop.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with work that is posted to the loop and may run after we are gone
};

}  // namespace headgate::api
