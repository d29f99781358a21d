// The tenant sockets: RUNTIME/shares/NAME/tenant.sock, one for each share, through which limiters get their pages
// (guest/ledger/registration.hpp says what is said).
//
// Whoever can reach the directory may knock; the kernel says who it is, and whoever may not enter is told so and let go
// before a word of his is read. What is bounded: connections of a share, of a user and of the node, the time for the
// whole conversation, its messages (two, of fixed size), and processes of a share. A reader that never reads is
// dropped. Nothing else can be asked for.
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

// All on the loop's one thread.
class RegistrationServer {
 public:
  using Bounds = ConnectionBounds;
  using Events = ListenerEvents;
  using TakeBack = ListenerEvents::TakeBack;

  RegistrationServer(boost::asio::any_io_executor executor, Shares& shares, Processes& processes, std::string proc,
                     Bounds bounds, Events events);
  ~RegistrationServer();

  // Binds the share's socket, over one that a former daemon left. Errors: of the file system; not_found.
  [[nodiscard]] Result<void> open(const std::string& share);
  // All that are shut(); the first error, after the others were opened all the same. Whose bell could not be listened
  // to gets another.
  [[nodiscard]] Result<void> open_all();
  void close(const std::string& share);
  // The share is another than it was: who waits there for leave is let in where nobody is asked any more, and sent away
  // where the door is shut to him, without the answer.
  void reconsider(const std::string& share);
  // Our end of a new doorbell for a share whose bell somebody shut down; who registers from now on gets the other one.
  // Empty: it got one less than ShareListener::kBellsApart ago, or has no door. Errors: of the system.
  [[nodiscard]] Result<UniqueFd> new_bell(const std::string& share, std::chrono::steady_clock::time_point now);

  // Shares that could be entered and that nobody can: their socket was not opened, or has gone, or is another's, or
  // nobody accepts there any more. By name.
  [[nodiscard]] std::vector<std::string> shut() const;

  // Of who registers; and of who waits for an answer.
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  void hand_over(const std::string& share, UniqueFd bell);

  std::shared_ptr<ListenerCommon> common_;
  std::map<std::string, std::shared_ptr<ShareListener>> doors_;
  std::set<std::string> unheard_;  // nobody listens to their bells
};

}  // namespace headgate::tenancy
