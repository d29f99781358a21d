// The stand-in's servers and their clients. They affect the simulated node as real servers affect a GPU's programs.
//
// As on real hardware, a client that is killed with work under way also ends its neighbours and wedges the server. A
// fault hits all clients, and the server accepts no others until they have ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
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
  double percent = 100;  // for clients that connect later
  std::string pinned;    // as set; empty: no limit
  bool fault = false, wedged = false;
  bool stuck = false;    // answers no question
  int hidden_looks = 0;  // how often the state is still told as it was before the fault
  std::vector<Client> clients;
  std::set<pid_t> asked;  // clients whose request it has logged
};

class Servers {
 public:
  // Writes a line of a server's log; server 0: of the control daemon's.
  using Log = std::function<void(pid_t server, const std::string& text)>;
  // `multi_user`: one server for all users, which runs as the daemon's user.
  Servers(bool multi_user, Log log) : multi_user_(multi_user), log_(std::move(log)) {}
  ~Servers();

  // Returns the user's server and starts it if there is none; nullptr while another user's server has clients. In
  // multi-user mode there is one for all.
  Server* of_user(uid_t uid, double default_percent);
  [[nodiscard]] Server* find(pid_t pid);
  [[nodiscard]] std::vector<Server>& all() { return servers_; }
  // Admits or refuses the client and sends it the result. Returns false if it has to wait; `client` is then unchanged.
  [[nodiscard]] bool take_in(Client& client, double default_percent);
  // Removes a client that said goodbye, or ended without.
  void left(Server& server, pid_t client, bool said_goodbye);
  // Ends the client's contexts; its neighbours continue. Returns false if it is no client of the server.
  [[nodiscard]] bool terminate(Server& server, pid_t client);
  void make_fault(Server& server, int hidden_looks);
  // Removes server processes that ended, and ends their clients' contexts.
  void reap();

 private:
  void log_fault(const Server& server) const;
  void fail_contexts(pid_t pid, std::uint32_t error) const;
  [[nodiscard]] static bool had_work(pid_t pid);

  const bool multi_user_;
  Log log_;
  std::vector<Server> servers_;
};

}  // namespace headgate::sim::mps
