// Who asks the daemon, and who of them is an administrator.
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

// Over a Unix socket by the peer's credentials. Over TCP nobody is known: with the token an administrator, without it,
// or with a wrong one, an error (denied) where a token is set, else a stranger that sees totals.
[[nodiscard]] Result<node::Caller> caller_of(const http::Request& request, const Access& access);

// Whether a request over TCP shows the daemon's token.
[[nodiscard]] bool shows_token(const http::Request& request, const Access& access);

// Who may speak for a client of the task channel: administrators. `access` must outlive the channel.
[[nodiscard]] channel::Authorise administrators(const CurrentAccess& access);

}  // namespace headgate::api
