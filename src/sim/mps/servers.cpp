#include "sim/mps/servers.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "sim/node.hpp"

namespace headgate::sim::mps {
namespace {

constexpr std::uint32_t kIllegalAddress = 700, kLaunchFailed = 719, kClientTerminated = 810;

std::unique_ptr<Node> node_of_gpu() {
  const auto directory = node_directory();
  if (!directory) return nullptr;
  auto node = Node::open_existing(*directory);
  return node ? std::move(*node) : nullptr;
}

template <typename Use>
void each_process(Node& node, pid_t pid, Use use) {
  Node::Locked locked(node);
  for (std::uint32_t p = 0; p < kMaxProcesses; ++p)
    if (node.state().processes[p].used != 0 && node.state().processes[p].pid == pid) use(locked.engine(), p);
}

void answer(const Client& client, Answer answer, std::uint32_t percent) {
  const Welcome welcome{answer, percent};
  ::send(client.connection.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The server runs as its clients' user.
pid_t start_server_process(uid_t uid) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::geteuid() == 0 && ::setresuid(uid, uid, uid) != 0) ::_exit(1);
  ::prctl(PR_SET_NAME, "nvidia-cuda-mps-server");
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::signal(SIGTERM, SIG_DFL);
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  for (;;) ::pause();
}

}  // namespace

Servers::~Servers() {
  for (const Server& server : servers_) {
    ::kill(server.pid, SIGKILL);
    ::waitpid(server.pid, nullptr, 0);
  }
}

Server* Servers::of_user(uid_t uid, double default_percent) {
  if (multi_user_) uid = ::geteuid();
  if (!servers_.empty() && servers_.front().uid != uid) {
    if (!servers_.front().clients.empty()) return nullptr;
    ::kill(servers_.front().pid, SIGTERM);
    ::waitpid(servers_.front().pid, nullptr, 0);
    servers_.clear();
  }
  if (servers_.empty()) {
    Server server;
    server.pid = start_server_process(uid);
    server.uid = uid;
    server.percent = default_percent;
    log_(0, "Starting new server " + std::to_string(server.pid) + " for user " + std::to_string(uid));
    servers_.push_back(std::move(server));
  }
  return &servers_.front();
}

Server* Servers::find(pid_t pid) {
  const auto found = std::ranges::find(servers_, pid, &Server::pid);
  return found == servers_.end() ? nullptr : &*found;
}

bool Servers::take_in(Client& client, double default_percent) {
  Server* const server = of_user(client.uid, default_percent);
  if (server == nullptr) return false;
  if (server->asked.insert(client.pid).second) log_(server->pid, "Received new client request");
  if (server->wedged) return false;
  server->asked.erase(client.pid);
  if (server->fault) {
    log_(server->pid, "Teardown in progress, client creation denied");
    answer(client, Answer::not_ready, 0);
    return true;
  }
  if (server->clients.size() >= kMaxClients) {
    log_(server->pid, "Failed to accept new client. Maximum number of clients (48) reached.");
    answer(client, Answer::full, 0);
    return true;
  }
  client.percent = std::min(client.percent, static_cast<std::uint32_t>(std::lround(std::floor(server->percent))));
  answer(client, Answer::accepted, client.percent);
  for (const char* text : {"Worker created", "Creating worker thread"}) log_(server->pid, text);
  server->clients.push_back(std::move(client));
  return true;
}

void Servers::left(Server& server, pid_t client, bool said_goodbye) {
  const auto found = std::ranges::find(server.clients, client, &Client::pid);
  if (found == server.clients.end()) return;
  server.clients.erase(found);
  log_(server.pid, "Client process disconnected");
  if (server.fault) {
    if (server.clients.empty()) server.fault = false;
    return;
  }
  if (said_goodbye || !had_work(client)) return;
  server.wedged = true;
  for (const Client& neighbour : server.clients) fail_contexts(neighbour.pid, kIllegalAddress);
}

bool Servers::terminate(Server& server, pid_t client) {
  const auto found = std::ranges::find(server.clients, client, &Client::pid);
  if (found == server.clients.end()) return false;
  fail_contexts(client, kClientTerminated);
  server.clients.erase(found);
  return true;
}

void Servers::make_fault(Server& server, int hidden_looks) {
  server.fault = !server.clients.empty();
  server.hidden_looks = hidden_looks;
  if (hidden_looks > 0) log_(server.pid, "Command handle failed");  // which names no fault
  else log_fault(server);
  for (const Client& client : server.clients) fail_contexts(client.pid, kLaunchFailed);
}

// In the words of driver 535.
void Servers::log_fault(const Server& server) const {
  const auto log = [&](const std::string& text) { log_(server.pid, text); };
  if (!server.clients.empty())
    log("Client process " + std::to_string(server.clients.front().pid) + " encountered a fatal GPU error.");
  log("Server is handling a fatal GPU error.");
  for (const Client& client : server.clients)
    log("Status of client {" + std::to_string(client.pid) + ", 1} is INACTIVE");
  log("The following clients have a sticky error set:");
  for (const Client& client : server.clients) log(std::to_string(client.pid));
}

void Servers::reap() {
  for (auto& server : servers_) {
    int status = 0;
    if (::waitpid(server.pid, &status, WNOHANG) != server.pid) continue;
    log_(0, "Server " + std::to_string(server.pid) + " exited with status " + std::to_string(status));
    for (const Client& client : server.clients) fail_contexts(client.pid, kLaunchFailed);
    servers_.clear();
    return;
  }
}

void Servers::fail_contexts(pid_t pid, std::uint32_t error) const {
  const auto node = node_of_gpu();
  if (node == nullptr) return;
  each_process(*node, pid, [&](Engine& engine, std::uint32_t process) {
    for (std::uint32_t c = 0; c < node->state().context_limit; ++c)
      if (node->state().contexts[c].used != 0 && node->state().contexts[c].process == process)
        engine.fail_context(c, error);
  });
}

// Returns whether a process that has ended had work. Its queue is empty by now, so a kernel shortly before its end
// counts too.
bool Servers::had_work(pid_t pid) {
  constexpr std::uint64_t kShortly = 30;  // buckets of 10 ms
  const auto node = node_of_gpu();
  if (node == nullptr) return false;
  Node::Locked locked(*node);
  const State& state = node->state();
  const std::uint64_t now = state.now_ns / kBucketNs;
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    if (state.accounts[a].used == 0 || state.accounts[a].pid != pid) continue;
    for (std::uint64_t ago = 0; ago < std::min(kShortly, now); ++ago)
      if (held_in_bucket(state.history[a], now - ago) > 0) return true;
  }
  return false;
}

}  // namespace headgate::sim::mps
