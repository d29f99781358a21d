// The tenant sockets: RUNTIME/shares/NAME/tenant.sock, one for each share, through which limiters get their pages. The
// messages are in guest/ledger/registration.hpp.
//
// A process that can reach the directory may connect. The kernel identifies it; one that may not enter is refused
// before any of its messages is read. Bounded are the connections of a share, of a user and of the node, the time of
// the whole conversation, its messages (two, of fixed size), and the processes of a share. A peer that never reads is
// dropped. There are no other requests.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/share_listener.hpp"
#include "tenancy/shares.hpp"

namespace headgate::tenancy {

// Call all of it on the loop's one thread.
class RegistrationServer {
 public:
  using Bounds = ConnectionBounds;
  using Events = ListenerEvents;
  using TakeBack = ListenerEvents::TakeBack;

  RegistrationServer(boost::asio::any_io_executor executor, Shares& shares, Processes& processes, std::string proc,
                     Bounds bounds, Events events);
  ~RegistrationServer();

  // Binds the share's socket, replacing one that a former daemon left. Errors: of the file system; not_found.
  [[nodiscard]] Result<void> open(const std::string& share);
  // Opens all that are shut(). Returns the first error after trying all of them. A share with a doorbell that could not
  // be watched gets another.
  [[nodiscard]] Result<void> open_all();
  void close(const std::string& share);
  // Call it when a share has changed. Peers that wait for an answer are let in if the share no longer asks, and refused
  // if they may no longer enter.
  void reconsider(const std::string& share);
  // Returns our end of a new doorbell after a share's bell was shut down; later registrations get the other. Empty if
  // the last is younger than ShareListener::kBellsApart, or nothing listens there. Errors: of the system.
  [[nodiscard]] Result<UniqueFd> new_bell(const std::string& share, std::chrono::steady_clock::time_point now);

  // Returns by name the usable shares that no process can enter: their socket was not opened, is gone or replaced, or
  // no longer accepts.
  [[nodiscard]] std::vector<std::string> shut() const;

  // Return how many processes are registering, and how many wait for an answer.
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  void hand_over(const std::string& share, UniqueFd bell);

  std::shared_ptr<ListenerCommon> common_;
  std::map<std::string, std::shared_ptr<ShareListener>> doors_;
  std::set<std::string> unheard_;  // their doorbells could not be watched
};

}  // namespace headgate::tenancy
