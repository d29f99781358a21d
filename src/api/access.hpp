// Identifies callers of the daemon, which of them are administrators, and what of the node each may see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "channel/channel.hpp"
#include "http/message.hpp"
#include "http/router.hpp"
#include "node/caller.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

// Names that every handler uses.
using http::error_response;
using http::json_reply;
using http::Request;
using http::Response;
using node::Caller;
using snapshot::Snapshot;

struct Access {
  std::uint32_t daemon_uid = 0;            // this user is an administrator
  std::optional<std::uint32_t> admin_gid;  // its members are administrators
  std::optional<std::string> token;        // a TCP caller that sends it is an administrator
  std::size_t streams_per_user = 32;       // event streams open at once; all TCP callers count as one user
};

// The access settings in force; replaced when the configuration is reloaded. Thread-safe.
class CurrentAccess {
 public:
  // Shared: a request keeps the settings it started with, even across a reload.
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

// Returns the caller: over a Unix socket by its credentials; over TCP an administrator if it sends the token. If no
// token is configured, TCP callers see totals only. Errors: denied if a configured token is missing or wrong.
[[nodiscard]] Result<node::Caller> caller_of(const http::Request& request, const Access& access);

// Return a handler that identifies the caller and hands it over; an unidentified one gets caller_of()'s error. `access`
// must outlive them.
using CallerHandler = std::function<Result<http::Response>(const http::Request&, const node::Caller&)>;
using CallerLaterHandler = std::function<void(const http::Request&, const node::Caller&, const http::Reply&)>;
[[nodiscard]] http::Handler with_caller(const CurrentAccess& access, CallerHandler handler);
[[nodiscard]] http::LaterHandler with_caller(const CurrentAccess& access, CallerLaterHandler handler);

// Returns true if a TCP request carries the daemon's token.
[[nodiscard]] bool shows_token(const http::Request& request, const Access& access);

// Lets only administrators act for a client of the task channel. `access` must outlive the channel.
[[nodiscard]] channel::Authorise administrators(const CurrentAccess& access);

// Returns the snapshot unchanged for administrators. For other callers, it drops the shares of other users, their
// contents and every mention of their names; shares that the caller owns or may enter by name appear in full. GPU and
// node totals stay complete. Pure.
[[nodiscard]] snapshot::Snapshot visible(const snapshot::Snapshot& snapshot, const node::Caller& caller);
// Returns false for events of shares that were not the caller's at the time, unless the caller's process or operation
// caused them, and for events without a share that name a process of others. The present owner does not matter: names
// are reused. Pure.
[[nodiscard]] bool may_see(const snapshot::Event& event, const node::Caller& caller);

// Limits how fast one user may change things. Each operation costs loop time, a disk write and an event, all shared
// between users. Thread-safe.
class OperationRate {
 public:
  static constexpr double kBurst = 256, kPerSecond = 16;

  // Counts one operation of a user. Errors: busy if the user's budget is used up.
  [[nodiscard]] Result<void> take(std::uint32_t uid, std::uint64_t now_ns);

 private:
  struct Budget {
    double left = kBurst;
    std::uint64_t at_ns = 0;
  };

  std::mutex mutex_;
  std::map<std::uint32_t, Budget> budgets_;  // a full budget is not stored
};

}  // namespace headgate::api
