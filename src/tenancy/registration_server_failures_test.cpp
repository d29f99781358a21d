// What happens at share sockets when the system runs out of resources.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <filesystem>
#include <new>

#include "tenancy/test_registration.hpp"

// Replaces the C library's function: no unprivileged program can make the kernel return these errors.
namespace {
bool no_more_watches = false, no_memory_at_accept = false;
}  // namespace

extern "C" int epoll_ctl(int epoll, int verb, int fd, epoll_event* event) noexcept {
  if (no_more_watches && verb == EPOLL_CTL_ADD) return errno = ENOSPC, -1;
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, verb, fd, event));
}

extern "C" int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  if (no_memory_at_accept) throw std::bad_alloc();
  return static_cast<int>(::syscall(SYS_accept4, fd, address, bytes, flags));
}

namespace headgate::tenancy {
namespace {

class Switched {
 public:
  explicit Switched(bool& what) : what_(what) { what_ = true; }
  ~Switched() { what_ = false; }
  Switched(const Switched&) = delete;

 private:
  bool& what_;
};

// Leaves the process no descriptor to open.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit less{256, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &less);
    while (UniqueFd one{::open("/", O_PATH | O_CLOEXEC)}) fillers_.push_back(std::move(one));
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> fillers_;
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 256; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

class TenantSocketFailures : public TenantSocket {
 protected:
  UniqueFd at_the_door() {
    UniqueFd socket = connect_to(directory());
    EXPECT_TRUE(until([&] { return doors_->connections() == 1; }));
    return socket;
  }
  void expect_busy(int socket, const std::string& why) {
    const Heard heard = answer(socket);
    EXPECT_EQ(heard.code, ledger::Refusal::busy) << heard.length;
    EXPECT_NE(heard.text.find(why), std::string::npos) << heard.text;
  }
  void expect_all_is_well() {
    EXPECT_TRUE(until([&] { return doors_->connections() == 0; }));
    EXPECT_TRUE(doors_->shut().empty());
    const UniqueFd socket = connect_to(directory());
    ASSERT_TRUE(say(socket.get(), hello()));
    EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
  }
};

// A limiter that gets no answer, or is disconnected, follows its fail policy: it may run unenforced.
TEST_F(TenantSocketFailures, AConnectWithoutADescriptorMayTryAgain) {
  std::vector<UniqueFd> all;
  for (int n = 0; n < 20; ++n) all.push_back(connect_to(directory()));
  {
    const NoDescriptorLeft left;
    for (const UniqueFd& one : all) expect_busy(one.get(), "headgated has no descriptor left");
  }
  expect_all_is_well();
}

TEST_F(TenantSocketFailures, AMessageWithoutADescriptorMayTryAgain) {
  const UniqueFd socket = at_the_door();
  {
    const NoDescriptorLeft left;
    ASSERT_TRUE(say(socket.get(), hello()));
    expect_busy(socket.get(), "headgated has no descriptor left");
  }
  expect_all_is_well();
}

TEST_F(TenantSocketFailures, AnUnwatchableProcessIsNotCounted) {
  const std::size_t before = open_descriptors();
  {
    const UniqueFd greeted = at_the_door();
    const UniqueFd socket = connect_to(directory());
    const Switched full(no_more_watches);
    expect_busy(socket.get(), "headgated cannot hear one more: No space left on device");
    ASSERT_TRUE(say(greeted.get(), hello()));
    expect_busy(greeted.get(), "process " + std::to_string(::getpid()) + " cannot be watched: No space left");
    EXPECT_TRUE(until([&] { return doors_->connections() == 0; }));
    EXPECT_EQ(processes_->count_in("s"), 0u);
  }
  EXPECT_EQ(open_descriptors(), before);
  expect_all_is_well();
}

TEST_F(TenantSocketFailures, AFailedRegistrationIsNotCounted) {
  handed_ = []() -> std::vector<int> { throw std::bad_alloc(); };
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(say(socket.get(), hello()));
  expect_busy(socket.get(), "headgated failed: ");
  ASSERT_EQ(troubles_.size(), 1u);
  EXPECT_NE(troubles_[0].find("process " + std::to_string(::getpid()) + " was sent away"), std::string::npos);
  handed_ = nullptr;
  expect_all_is_well();
}

TEST_F(TenantSocketFailures, ADeadSocketIsNamedAndOpensAgain) {
  const UniqueFd socket = connect_to(directory());
  {
    const Switched full(no_memory_at_accept);
    ASSERT_TRUE(until([&] { return !doors_->shut().empty(); }));
  }
  EXPECT_EQ(doors_->shut(), std::vector<std::string>{"s"});
  EXPECT_EQ(troubles_, std::vector<std::string>{"the door of the share 's': no process is admitted: std::bad_alloc"});
  ASSERT_TRUE(doors_->open_all());
  expect_all_is_well();
}

TEST_F(TenantSocketFailures, ASocketThatCannotOpenIsNamedAndRetried) {
  {
    const Switched full(no_more_watches);
    const auto opened = doors_->open("s");
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, "the door of the share 's': No space left on device");
  }
  EXPECT_EQ(doors_->shut(), std::vector<std::string>{"s"});
  ASSERT_TRUE(doors_->open_all());
  expect_all_is_well();
}

// A share that the arbiter does not watch would use the GPU in addition to the others' turns.
TEST_F(TenantSocketFailures, ADoorbellThatFailsIsReplaced) {
  deaf_ = true;
  ASSERT_TRUE(doors_->open("s"));
  EXPECT_TRUE(doors_->shut().empty());
  deaf_ = false;
  bell_.reset();
  ASSERT_TRUE(doors_->open_all());
  ASSERT_TRUE(bell_);
  const UniqueFd socket = connect_to(directory());
  ASSERT_TRUE(say(socket.get(), hello()));
  const Heard welcome = answer(socket.get());
  ASSERT_EQ(welcome.head.type, ledger::MessageType::welcome);
  EXPECT_EQ(::send(welcome.descriptors[2].get(), "r", 1, MSG_NOSIGNAL), 1);
  char ring = 0;
  EXPECT_EQ(::recv(bell_.get(), &ring, 1, 0), 1) << "a process that registers rings this bell";
  bell_.reset();
  ASSERT_TRUE(doors_->open_all());
  EXPECT_FALSE(bell_) << "a bell that is heard is left alone";
}

TEST_F(TenantSocketFailures, AnOpenSocketStaysWhenOthersOpenAgain) {
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(doors_->open_all());
  ASSERT_TRUE(say(socket.get(), hello()));
  EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
}

}  // namespace
}  // namespace headgate::tenancy
