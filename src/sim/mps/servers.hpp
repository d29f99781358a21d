// The servers of the stand-in and their clients: what the real ones do to a GPU's programs, done to the simulated node.
//
// As on real hardware: a client that is killed with work under way takes its neighbours along and wedges the server; a
// fault hits all clients, and the server takes no others until they have ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "sim/mps/wire.hpp"

namespace headgate::sim::mps {

inline constexpr std::size_t kMaxClients = 48;

struct Client {
  pid_t pid = 0;
  uid_t uid = 0;
  UniqueFd connection, pidfd;
  std::uint32_t percent = 100;
};

struct Server {
  pid_t pid = 0;
  uid_t uid = 0;
  double percent = 100;  // of clients that come later
  std::string pinned;    // as it was written; empty: no limit
  bool fault = false, wedged = false;
  std::vector<Client> clients;
};

class Servers {
 public:
  explicit Servers(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
  ~Servers();

  // The user's server, started where there is none; nullptr while another user's has clients.
  Server* of_user(uid_t uid, double default_percent);
  [[nodiscard]] Server* find(pid_t pid);
  [[nodiscard]] std::vector<Server>& all() { return servers_; }
  // Takes the client in, or refuses it; it has its answer then. False: it has to wait, and `client` stays as it was.
  [[nodiscard]] bool take_in(Client& client, double default_percent);
  // The client said goodbye, or has ended without.
  void left(Server& server, pid_t client, bool said_goodbye);
  // Takes it off: its contexts are over, its neighbours go on. False: it is no client of the server.
  [[nodiscard]] bool terminate(Server& server, pid_t client);
  void make_fault(Server& server);
  // A server process that has ended takes its clients along.
  void reap();

 private:
  void fail_contexts(pid_t pid, std::uint32_t error) const;
  [[nodiscard]] static bool had_work(pid_t pid);

  std::function<void(const std::string&)> log_;
  std::vector<Server> servers_;
};

}  // namespace headgate::sim::mps
