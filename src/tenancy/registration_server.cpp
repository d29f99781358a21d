#include "tenancy/registration_server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/untrusted_socket.hpp"
#include "guest/ledger/registration.hpp"

namespace headgate::tenancy {
namespace {

// Listens on the tenant socket in `directory`; a path longer than sun_path goes through the directory's descriptor.
Result<UniqueFd> listen_at(const std::string& directory) {
  const UniqueFd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno(directory, errno);
  const std::string where = directory + "/" + ledger::kTenantSocket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = where.size() < sizeof address.sun_path
                               ? where
                               : "/proc/self/fd/" + std::to_string(folder.get()) + "/" + ledger::kTenantSocket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(where, errno);
  if (::unlinkat(folder.get(), ledger::kTenantSocket, 0) != 0 && errno != ENOENT) return fail_errno(where, errno);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(where, errno);
  // Connecting takes write permission; the peer's credentials decide whether it may enter.
  if (::fchmodat(folder.get(), ledger::kTenantSocket, 0666, 0) != 0) return fail_errno(where, errno);
  refuse_descriptors(listener.get());
  if (::listen(listener.get(), 128) != 0) return fail_errno(where, errno);
  return listener;
}

}  // namespace

RegistrationServer::RegistrationServer(boost::asio::any_io_executor executor, Shares& shares, Processes& processes,
                                       std::string proc, Bounds bounds, Events events)
    : common_(std::make_shared<ListenerCommon>(
          ListenerCommon{std::move(executor), shares, processes, std::move(proc), bounds, std::move(events)})) {}

RegistrationServer::~RegistrationServer() {
  for (const auto& [name, door] : doors_) door->close();
}

Result<void> RegistrationServer::open(const std::string& share) {
  const LiveShare* live = common_->shares.find(share);
  if (live == nullptr) return fail(ErrorCode::not_found, "there is no share '" + escape_untrusted(share) + "'");
  if (live->broken) return std::unexpected(*live->broken);
  close(share);
  UniqueFd listener = TRY(listen_at(common_->shares.directory(share)));
  Bell bell = TRY(make_bell());
  auto door = std::make_shared<ShareListener>(common_, share, std::move(bell.theirs));
  TRY(door->start(std::move(listener)));
  doors_[share] = std::move(door);
  hand_over(share, std::move(bell.ours));
  return {};
}

void RegistrationServer::hand_over(const std::string& share, UniqueFd bell) {
  if (!common_->events.bell || common_->events.bell(share, std::move(bell))) unheard_.erase(share);
  else unheard_.insert(share);
}

Result<void> RegistrationServer::open_all() {
  Result<void> first;
  for (const std::string& name : shut()) {
    if (auto opened = open(name); !opened && first) first = std::move(opened);
  }
  for (const std::string& name : std::set(unheard_)) {
    auto bell = new_bell(name, std::chrono::steady_clock::now());
    if (bell && *bell) hand_over(name, std::move(*bell));
  }
  return first;
}

void RegistrationServer::reconsider(const std::string& share) {
  const auto found = doors_.find(share);
  if (found != doors_.end()) found->second->reconsider();
}

void RegistrationServer::close(const std::string& share) {
  const auto found = doors_.find(share);
  if (found == doors_.end()) return;
  found->second->close();
  doors_.erase(found);
  unheard_.erase(share);
}

Result<UniqueFd> RegistrationServer::new_bell(const std::string& share, std::chrono::steady_clock::time_point now) {
  const auto found = doors_.find(share);
  return found == doors_.end() ? UniqueFd() : found->second->new_bell(now);
}

std::vector<std::string> RegistrationServer::shut() const {
  std::vector<std::string> all;
  for (const auto& [name, live] : common_->shares.list()) {
    const auto door = doors_.find(name);
    if (!live.broken && (door == doors_.end() || !door->second->open())) all.push_back(name);
  }
  return all;
}

std::size_t RegistrationServer::connections() const { return common_->crowd.connections; }

std::size_t RegistrationServer::waiting() const { return common_->crowd.waiting(); }

}  // namespace headgate::tenancy
