// The registration of one process that has connected to a share's socket: its messages (guest/ledger/registration.hpp),
// a scheduler's leave where the share asks first, and its seat.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "base/untrusted_socket.hpp"
#include "tenancy/share_entry.hpp"

namespace headgate::tenancy {

// Its coroutines keep it alive until the conversation is over.
class PeerRegistration {
 public:
  PeerRegistration(std::shared_ptr<ShareEntry> entry, identity::Peer peer, ConnectionToken counted);
  ~PeerRegistration();
  PeerRegistration(const PeerRegistration&) = delete;
  PeerRegistration& operator=(const PeerRegistration&) = delete;

  // Begins the conversation; refuses the peer if the loop cannot watch one more descriptor.
  static void start(const std::shared_ptr<PeerRegistration>& pending, UntrustedSocket socket);

 private:
  // Coroutines are static and take by value what must outlive the operations they wait for.
  static boost::asio::awaitable<void> converse(std::shared_ptr<PeerRegistration> pending);
  static boost::asio::awaitable<bool> waits_to_be_heard(std::shared_ptr<PeerRegistration> pending);
  // Returns the next message of that type from a peer that may still enter; none: the conversation is over.
  template <typename Message>
  static boost::asio::awaitable<std::optional<Message>> next(std::shared_ptr<PeerRegistration> pending,
                                                             ledger::MessageType type);
  // Returns whether the process may stay in its slot, after asking as the share's owner wants. If not, it has been
  // refused. Cancels `limit`, the conversation's timer, to ask.
  static boost::asio::awaitable<bool> may_stay(std::shared_ptr<PeerRegistration> pending, ledger::Claimed claimed,
                                               boost::asio::steady_timer& limit);
  // Succeeds too if the share no longer asks, or its socket is shut by now: the caller checks.
  static boost::asio::awaitable<Result<void>> answer_for(std::shared_ptr<PeerRegistration> pending,
                                                         TenantProcess tenant);
  // Calls `gone` when there is something to read, or the peer has disconnected.
  static void watch(const std::weak_ptr<PeerRegistration>& waiting, std::function<void()> gone);

  void refuse_seat(std::uint32_t slot);
  // Returns the process that the share's owner wants asked about; empty if none has to be.
  [[nodiscard]] std::optional<TenantProcess> to_ask_about() const;
  // Returns false if the peer may not enter; it has been told why.
  [[nodiscard]] bool greet(const ledger::Hello& hello);
  void seat(const ledger::Claimed& claimed);

  const std::shared_ptr<ShareEntry> entry_;
  boost::asio::posix::stream_descriptor socket_;
  identity::Peer peer_;
  ConnectionToken registering_;
};

}  // namespace headgate::tenancy
