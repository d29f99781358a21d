#include "sim/mps/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>

#include "sim/mps/commands.hpp"

namespace headgate::sim::mps {
namespace {

constexpr int kLookMs = 10;  // poll interval for demands, ended processes and waiting clients

struct Peer {
  UniqueFd connection;
  pid_t pid = 0;
  uid_t uid = 0;
  bool is_client = false, waits = false;
  std::uint32_t percent = 100;
  bool gone = false;
};

class Daemon {
 public:
  Daemon(std::string pipe, std::string log, const Manners& manners, bool multi_user)
      : pipe_(std::move(pipe)),
        log_(std::move(log)),
        manners_(manners),
        servers_(multi_user, [this](pid_t server, const std::string& text) { write_log(server, text); }) {}

  Result<void> listen() {
    ::mkdir(pipe_.c_str(), 0777);
    ::mkdir(log_.c_str(), 0700);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = pipe_ + "/control";
    if (path.size() + std::strlen("_privileged") >= sizeof address.sun_path)
      return fail(ErrorCode::failed, "Failed to bind the control socket: the path is too long");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ::unlink(path.c_str());
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 128) != 0)
      return fail_errno("Failed to bind " + path, errno);
    ::chmod(path.c_str(), 0666);
    for (const char* name : {"/control_lock", "/control_privileged"}) std::ofstream(pipe_ + name) << "";
    if (manners_.release_550) std::ofstream(pipe_ + "/nvidia-cuda-mps-control.pid") << ::getpid() << "\n";
    std::ofstream(log_ + "/server.log", std::ios::app) << "";
    return {};
  }

  void run() {
    while (!done_) {
      std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
      for (const auto& peer : peers_) polled.push_back({peer->connection.get(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), kLookMs);
      for (std::size_t i = 1; i < polled.size(); ++i)
        if (polled[i].revents != 0) hear(*peers_[i - 1]);
      std::erase_if(peers_, [](const auto& peer) { return peer->gone; });
      accept_all();
      look();
    }
    if (manners_.release_550) ::unlink((pipe_ + "/nvidia-cuda-mps-control.pid").c_str());
  }

 private:
  void accept_all() {
    for (;;) {
      auto peer = std::make_unique<Peer>();
      peer->connection = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer->connection) return;
      ucred who{};
      socklen_t size = sizeof who;
      ::getsockopt(peer->connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &size);
      peer->pid = who.pid;
      peer->uid = who.uid;
      peers_.push_back(std::move(peer));
    }
  }

  void hear(Peer& peer) {
    std::array<char, kMaxMessage> bytes;
    const ssize_t count = ::recv(peer.connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      peer.gone = true;
      return;
    }
    Hello hello;
    if (static_cast<std::size_t>(count) == sizeof hello) std::memcpy(&hello, bytes.data(), sizeof hello);
    else hello.magic = 0;
    if (hello.magic == Hello{}.magic) {
      peer.is_client = peer.waits = true;
      peer.percent = hello.percent;
      return;
    }
    if (!silent_) obey(peer, std::string(bytes.data(), static_cast<std::size_t>(count)));
  }

  void obey(const Peer& peer, const std::string& line) {
    write_log(0, "Cmd:" + line);
    if (line == "quit" || line.starts_with("quit ")) {
      quitting_ = true;
      return;
    }
    const auto said = answer_to(line, manners_, defaults_, servers_);
    if (!said) return;
    const std::string text = kPrinted + *said;
    ::send(peer.connection.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void look() {
    servers_.reap();
    look_for_ends();
    for (const auto& peer : peers_)
      if (peer->waits) take_in(*peer);
    std::erase_if(peers_, [](const auto& peer) { return peer->gone; });
    do_demand();
    if (quitting_ && !has_clients()) done_ = true;
    // The socket was removed: the test has deleted its directory.
    if (::access((pipe_ + "/control").c_str(), F_OK) != 0) done_ = true;
  }

  void take_in(Peer& peer) {
    if (silent_) return;
    Client client{.pid = peer.pid,
                  .uid = peer.uid,
                  .connection = UniqueFd(::dup(peer.connection.get())),
                  .pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0))),
                  .percent = peer.percent};
    if (servers_.take_in(client, defaults_.percent)) peer.gone = true;  // the server owns its connection now
  }

  void look_for_ends() {
    for (Server& server : servers_.all()) {
      if (server.wedged) continue;  // it notices nothing
      std::vector<std::pair<pid_t, bool>> gone;
      for (const Client& client : server.clients) {
        char byte = 0;
        const ssize_t count = ::recv(client.connection.get(), &byte, 1, MSG_DONTWAIT);
        pollfd polled{client.pidfd.get(), POLLIN, 0};
        if (count == 1 && byte == kGoodbye) gone.emplace_back(client.pid, true);
        else if (::poll(&polled, 1, 0) > 0 && polled.revents != 0) gone.emplace_back(client.pid, false);
      }
      for (const auto& [pid, said_goodbye] : gone) servers_.left(server, pid, said_goodbye);
    }
  }

  [[nodiscard]] bool has_clients() {
    for (const Server& server : servers_.all())
      if (!server.clients.empty()) return true;
    return false;
  }

  void do_demand() {
    const std::string path = log_ + "/demand";
    std::ifstream file(path);
    std::string word;
    if (!(file >> word)) return;
    ::unlink(path.c_str());
    if (word == "death") ::raise(SIGKILL);
    if (word == "silence" || word == "speak") silent_ = word == "silence";
    for (Server& server : servers_.all()) {
      if (word == "fault" || word == "late") servers_.make_fault(server, word == "late" ? 2 : 0);
      if (word == "wedge" || word == "stuck") server.wedged = true;
      if (word == "stuck") server.stuck = true;
    }
  }

  // As the driver begins lines: [2026-11-27 10:39:10.612 Control 21834].
  void write_log(pid_t server, const std::string& text) const {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm local{};
    ::localtime_r(&now.tv_sec, &local);
    char time[40];
    std::strftime(time, sizeof time, "%F %T", &local);
    char begin[80];
    std::snprintf(begin, sizeof begin, "[%s.%03ld %s %5d] ", time, now.tv_nsec / 1'000'000,
                  server == 0 ? "Control" : "Server", server == 0 ? ::getpid() : server);
    std::ofstream(log_ + (server == 0 ? "/control.log" : "/server.log"), std::ios::app) << begin << text << "\n";
  }

  const std::string pipe_, log_;
  const Manners manners_;
  UniqueFd listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Defaults defaults_;
  Servers servers_;
  bool silent_ = false, quitting_ = false, done_ = false;
};

}  // namespace

Manners manners_from(std::string_view text) {
  Manners manners;
  const auto has = [&](std::string_view word) {
    return ("," + std::string(text) + ",").contains("," + std::string(word) + ",");
  };
  manners.later = has("later");
  manners.release_555 = manners.later || has("555");
  manners.release_550 = manners.release_555 || has("550");
  manners.ignores = has("ignores");
  manners.refuse = has("refuse");
  manners.hang = has("hang");
  manners.deaf = has("deaf");
  manners.nonsense = has("nonsense");
  manners.flood = has("flood");
  manners.slow = has("slow");
  manners.waits = has("waits");
  return manners;
}

Result<void> run_daemon(const std::string& pipe, const std::string& log, const Manners& manners, bool multi_user,
                        void (*listening)()) {
  ::signal(SIGPIPE, SIG_IGN);
  Daemon daemon(pipe, log, manners, multi_user);
  while (manners.waits && ::access((log + "/go").c_str(), F_OK) != 0) ::usleep(1'000);
  if (auto bound = daemon.listen(); !bound) return bound;
  listening();
  daemon.run();
  return {};
}

}  // namespace headgate::sim::mps
