// The listening socket of one share (registration_server.hpp lists the bounds).
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "base/untrusted_socket.hpp"
#include "tenancy/share_entry.hpp"

namespace headgate::tenancy {

// The two ends of a share's doorbell. A pair of sockets rather than an eventfd: the tenant's end shares no file flags
// with ours, so we never block in a read that a tenant made blocking. A limiter can tell by its inode whether the
// descriptor is still the bell after the program has closed and opened others.
struct Bell {
  UniqueFd ours, theirs;
};

[[nodiscard]] Result<Bell> make_bell();

// One share's listening socket. Its coroutine keeps it alive; close() ends it.
class ShareListener : public std::enable_shared_from_this<ShareListener> {
 public:
  static constexpr std::chrono::seconds kBellsApart{10};

  // `share` must exist and have its socket; `bell` is the tenants' end.
  ShareListener(std::shared_ptr<ListenerCommon> common, std::string share, UniqueFd bell);

  // Errors: the loop cannot watch one more descriptor.
  [[nodiscard]] Result<void> start(UniqueFd listener);
  // Returns whether a peer that connects now is heard.
  [[nodiscard]] bool open() const { return !entry_->closed && inode_ != 0 && socket_inode() == inode_; }
  void close();
  // RegistrationServer::reconsider().
  void reconsider() { entry_->reconsider(); }
  // RegistrationServer::new_bell().
  [[nodiscard]] Result<UniqueFd> new_bell(std::chrono::steady_clock::time_point now);

 private:
  static boost::asio::awaitable<void> accept_all(std::shared_ptr<ShareListener> listener);
  // Returns the inode of the socket as others find it; 0 if there is none.
  [[nodiscard]] ino_t socket_inode() const;
  // Returns 0 if a peer was let in or refused, else the errno that prevented it.
  int accept_one();
  void admit(UntrustedSocket socket);

  // Shared with registrations, which may outlive the listener.
  const std::shared_ptr<ShareEntry> entry_;
  boost::asio::posix::stream_descriptor listener_;
  std::chrono::steady_clock::time_point belled_at_;  // the doorbell was replaced then; at first never
  const ino_t inode_;
};

}  // namespace headgate::tenancy
