#include "tenancy/connection_limits.hpp"

#include "identity/subordinate.hpp"

namespace headgate::tenancy {
namespace {

std::uint32_t user_of(const identity::Peer& peer) {
  return identity::answerable_user(peer.uid, peer.user_namespace_owner);
}

std::size_t count_of(const CountByUser& counts, std::uint32_t user) {
  const auto found = counts.find(user);
  return found == counts.end() ? 0 : found->second;
}

void count_less(CountByUser& counts, std::uint32_t user) {
  if (--counts[user] == 0) counts.erase(user);
}

}  // namespace

std::size_t NodeConnections::waiting() const {
  std::size_t all = 0;
  for (const auto& [user, count] : waiting_of_user) all += count;
  return all;
}

std::optional<std::string> ShareConnections::full() const {
  const bool owner_has_room = owner_ == 0 || count_of(node_.of_owner, owner_) < bounds_.connections_of_an_owner;
  if (connections_ < bounds_.connections_of_a_share && node_.connections < bounds_.connections && owner_has_room)
    return std::nullopt;
  return "too many processes are registering at once: try again";
}

std::optional<std::string> ShareConnections::full_of(const identity::Peer& peer) const {
  const std::uint32_t user = user_of(peer);
  if (count_of(of_user_, user) < bounds_.connections_of_a_user_in_a_share &&
      count_of(node_.of_user, user) < bounds_.connections_of_a_user)
    return std::nullopt;
  return "too many processes of uid " + std::to_string(user) + " are registering at once: try again";
}

ConnectionToken ShareConnections::come(const identity::Peer& peer) {
  const std::uint32_t user = user_of(peer);
  ++of_user_[user];
  ++node_.of_user[user];
  ++node_.of_owner[owner_];
  ++connections_;
  ++node_.connections;
  return ConnectionToken([this, user] {
    --connections_;
    --node_.connections;
    count_less(of_user_, user);
    count_less(node_.of_user, user);
    count_less(node_.of_owner, owner_);
  });
}

Result<ConnectionToken> ShareConnections::wait(const identity::Peer& peer) {
  const std::uint32_t user = user_of(peer), pid = peer.process.pid;
  if (node_.waiting() >= bounds_.waiting)
    return fail(ErrorCode::no_capacity, "too many processes wait for an answer: try again");
  if (owner_ != 0 && count_of(node_.waiting_of_owner, owner_) >= bounds_.waiting_of_an_owner)
    return fail(ErrorCode::no_capacity,
                "too many processes wait for an answer in shares of uid " + std::to_string(owner_) + ": try again");
  if (count_of(node_.waiting_of_user, user) >= bounds_.waiting_of_a_user)
    return fail(ErrorCode::no_capacity,
                "too many processes of uid " + std::to_string(user) + " wait for an answer: try again");
  if (!waiting_.insert(pid).second)
    return fail(ErrorCode::no_capacity, "process " + std::to_string(pid) + " waits for an answer already: try again");
  ++node_.waiting_of_user[user];
  ++node_.waiting_of_owner[owner_];
  return ConnectionToken([this, user, pid] {
    waiting_.erase(pid);
    count_less(node_.waiting_of_user, user);
    count_less(node_.waiting_of_owner, owner_);
  });
}

}  // namespace headgate::tenancy
