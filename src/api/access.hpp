// Identifies callers of the daemon, and which of them are administrators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "channel/channel.hpp"
#include "http/message.hpp"
#include "node/caller.hpp"

namespace headgate::api {

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

// Returns true if a TCP request carries the daemon's token.
[[nodiscard]] bool shows_token(const http::Request& request, const Access& access);

// Lets only administrators act for a client of the task channel. `access` must outlive the channel.
[[nodiscard]] channel::Authorise administrators(const CurrentAccess& access);

}  // namespace headgate::api
