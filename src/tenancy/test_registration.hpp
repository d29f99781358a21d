// A share's socket for tests, and clients of it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "guest/ledger/account.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/test_page.hpp"
#include "tenancy/registration_server.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {

namespace asio = boost::asio;
using namespace std::chrono_literals;

inline UniqueFd connect_to(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (directory + "/tenant.sock").c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  return socket;
}

struct Heard {
  ssize_t length = -1;
  ledger::MessageHead head{};
  std::string text;  // of a refusal
  ledger::Refusal code{};
  ledger::Welcome welcome{};
  UniqueFd descriptors[3];
};

// Blocks: for children. The test itself calls it only when poll() says that there is something.
inline Heard hear(int socket) {
  Heard heard;
  alignas(8) char bytes[512];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  iovec part{bytes, sizeof bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  heard.length = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (heard.length >= static_cast<ssize_t>(sizeof heard.head)) std::memcpy(&heard.head, bytes, sizeof heard.head);
  if (heard.length == sizeof(ledger::Refuse)) {
    heard.text = bytes + offsetof(ledger::Refuse, text);
    std::memcpy(&heard.code, bytes + offsetof(ledger::Refuse, code), sizeof heard.code);
  }
  if (heard.length == sizeof(ledger::Welcome)) std::memcpy(&heard.welcome, bytes, sizeof heard.welcome);
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&header); heard.length > 0 && rights != nullptr) {
    int fds[3];
    std::memcpy(fds, CMSG_DATA(rights), sizeof fds);
    for (int i = 0; i < 3; ++i) heard.descriptors[i] = UniqueFd(fds[i]);
  }
  return heard;
}

template <typename Message>
bool say(int socket, const Message& message) {
  return ::send(socket, &message, sizeof message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

inline ledger::Hello hello() {
  const ledger::Identity self = ledger::own_identity();
  return {ledger::head_of<ledger::Hello>(ledger::MessageType::hello), self.pid, self.pidns_inode, self.start_time,
          ledger::kVersion};
}

class TenantSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    ::chmod(scratch_.path().c_str(), 0755);
    Adoption adoption;
    auto store = Store::open(scratch_.path() + "/state.db");
    ASSERT_TRUE(store);
    auto shares = Shares::open({base_, {{kGpu0, 80 * kGiB}}, {}}, std::move(*store), adoption);
    ASSERT_TRUE(shares) << shares.error().message;
    shares_.emplace(std::move(*shares));
    Share share = share_of("s", ::geteuid(), 8 * kGiB);
    ASSERT_TRUE(shares_->create(share));
    open_doors({});
  }
  void open_doors(RegistrationServer::Bounds bounds) {
    doors_.reset();
    processes_.reset();
    processes_.emplace(context_.get_executor(), *shares_, "/proc",
                       Processes::Events{[this](const TenantProcess& process) { joined_.push_back(process); },
                                         [this](const TenantProcess& process) { left_.push_back(process); },
                                         [this](const TenantProcess& process) { admitted_.push_back(process); }});
    doors_.emplace(context_.get_executor(), *shares_, *processes_, "/proc", bounds,
                   RegistrationServer::Events{
                       .lied = [this](const auto&, const auto&, const std::string& what) { lies_.push_back(what); },
                       .bell =
                           [this](const auto&, UniqueFd bell) {
                             bell_ = std::move(bell);
                             return !deaf_;
                           },
                       .ask =
                           [this](const Share&, const TenantProcess& tenant, ListenerEvents::Decide decide) {
                             asked_.push_back(tenant);
                             if (decide_at_once_) decide(*decide_at_once_);
                             decide_ = std::move(decide);
                             return [this](const std::string& why) {
                               ++taken_back_;
                               taken_back_for_ = why;
                             };
                           },
                       .handed = [this](const auto&) { return handed_ ? handed_() : std::vector<int>(); },
                       .trouble = [this](const std::string& what) { troubles_.push_back(what); }});
    ASSERT_TRUE(doors_->open_all());
  }
  // Runs the loop until the condition holds; returns false after 20 s.
  template <typename Condition>
  bool until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      context_.restart();
      context_.run_one_for(10ms);
    }
    return true;
  }
  Heard answer(int socket) {
    const auto ready = [&] {
      pollfd fd{socket, POLLIN, 0};
      return ::poll(&fd, 1, 0) > 0;
    };
    return until(ready) ? hear(socket) : Heard{};
  }
  std::string directory() { return shares_->directory("s"); }
  ledger::UsagePage& usage() { return shares_->find("s")->pages->usage(); }

  // A process that registers by the socket, reserves a GiB, and says so; then waits to be killed.
  struct Tenant {
    pid_t pid = -1;
    UniqueFd said;
  };
  template <typename Before>
  Tenant start_tenant(Before before) {
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) return {};
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(pipe[0]);
      ::alarm(60);
      const bool good = before();
      // Giving up root clears the death signal.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(good ? live(directory(), pipe[1]) : 9);
    }
    ::close(pipe[1]);
    return {pid, UniqueFd(pipe[0])};
  }
  static int live(const std::string& directory, int out) {
    const UniqueFd socket = connect_to(directory);
    if (!socket) return 10;
    (void)say(socket.get(), hello());  // a peer that may not enter is refused before it speaks
    const Heard welcome = hear(socket.get());
    if (welcome.head.type != ledger::MessageType::welcome) return 11;
    ledger::SharePages pages;
    if (ledger::map_pages(welcome.descriptors[0].get(), welcome.descriptors[1].get(), pages)) return 12;
    ledger::SlotRef slot;
    if (ledger::claim_for_self(*pages.usage, slot) != ledger::ClaimResult::claimed) return 13;
    if (!ledger::reserve(*pages.usage, 0, slot, kGiB, 8 * kGiB).ok) return 14;
    if (!say(socket.get(), ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed), slot.slot,
                                           slot.generation}))
      return 15;
    if (hear(socket.get()).head.type != ledger::MessageType::seated) return 16;
    sigset_t become_another;
    ::sigemptyset(&become_another);
    ::sigaddset(&become_another, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &become_another, nullptr);
    if (::write(out, "s", 1) != 1) return 17;
    int came = 0;
    ::sigwait(&become_another, &came);
    return ::execl("/bin/sleep", "sleep", "60", nullptr);
  }
  bool told(const Tenant& tenant) {
    return until([&] {
             pollfd fd{tenant.said.get(), POLLIN, 0};
             return ::poll(&fd, 1, 0) > 0;
           }) &&
           [&] {
             char byte = 0;
             return ::read(tenant.said.get(), &byte, 1) == 1;
           }();
  }
  int end(const Tenant& tenant) {
    int status = 0;
    ::kill(tenant.pid, SIGKILL);
    ::waitpid(tenant.pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Scratch scratch_;
  std::string base_ = scratch_.path() + "/run";
  asio::io_context context_{1};
  std::optional<Shares> shares_;
  std::optional<Processes> processes_;
  std::optional<RegistrationServer> doors_;
  std::vector<TenantProcess> joined_, left_, admitted_;
  std::vector<std::string> lies_, troubles_;
  std::function<std::vector<int>()> handed_;
  UniqueFd bell_;
  bool deaf_ = false;  // the bells' receiver cannot watch them
  std::vector<TenantProcess> asked_;
  ListenerEvents::Decide decide_;
  std::optional<Result<void>> decide_at_once_;
  int taken_back_ = 0;
  std::string taken_back_for_;
};

}  // namespace headgate::tenancy
