#include "identity/peer.hpp"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "identity/subordinate.hpp"

namespace headgate::identity {
namespace {

// A child that holds one end of a socket until told to exit; `before` runs in it first.
class Child {
 public:
  template <typename Before>
  explicit Child(Before before) {
    int gate[2] = {-1, -1};
    EXPECT_EQ(::pipe(gate), 0);
    char path[] = "/tmp/headgate-peer-XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    folder_ = path;
    sockaddr_un_.sun_family = AF_UNIX;
    std::strcpy(sockaddr_un_.sun_path, (folder_ + "/s").c_str());
    const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&sockaddr_un_), sizeof sockaddr_un_), 0);
    EXPECT_EQ(::chmod(sockaddr_un_.sun_path, 0666), 0);
    EXPECT_EQ(::chmod(path, 0711), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(gate[1]);
      if (!before()) ::_exit(9);
      const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
      if (::connect(socket, reinterpret_cast<sockaddr*>(&sockaddr_un_), sizeof sockaddr_un_) != 0) ::_exit(8);
      char byte = 0;
      ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 7);
    }
    ::close(gate[0]);
    gate_ = UniqueFd(gate[1]);
    // A child that cannot set up the test exits without connecting.
    ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    int status = 0;
    while (!socket_ && ended_ == 0) {
      socket_ = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket_) ended_ = ::waitpid(pid_, &status, WNOHANG);
      ::usleep(1000);
    }
  }
  ~Child() {
    go();
    ::unlink(sockaddr_un_.sun_path);
    ::rmdir(folder_.c_str());
  }
  void go() {
    gate_.reset();
    if (ended_ == 0) ended_ = ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] bool connected() const { return static_cast<bool>(socket_); }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  std::string folder_;
  struct {
    sa_family_t sun_family;
    char sun_path[108];
  } sockaddr_un_{};
  UniqueFd gate_, socket_;
  pid_t pid_ = 0, ended_ = 0;
};

TEST(Peers, AProcessHasPidUserStartTimeAndPidfd) {
  Child child([] { return true; });
  const auto peer = peer_of(child.socket(), "/proc");
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->process.pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_NE(peer->process.start_time, 0u);
  EXPECT_FALSE(peer->user_namespace_owner);
  EXPECT_FALSE(has_ended(peer->pidfd.get()));
  child.go();
  EXPECT_TRUE(has_ended(peer->pidfd.get()));
  EXPECT_FALSE(peer_of(child.socket(), "/proc"));
  EXPECT_FALSE(pidfd_of(peer->process, "/proc"));
}

TEST(Peers, AProcessHasPidUserAndPidfdWithoutProc) {
  Child child([] { return true; });
  const auto peer = peer_of(child.socket(), "/nothing-is-mounted-here");
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->process.pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(peer->process.namespace_pid, peer->process.pid);
  EXPECT_EQ(peer->process.uid, ::geteuid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_FALSE(has_ended(peer->pidfd.get()));
  child.go();
  EXPECT_TRUE(has_ended(peer->pidfd.get()));
  EXPECT_FALSE(peer_of(child.socket(), "/nothing-is-mounted-here"));
}

TEST(Peers, AProcessThatGaveUpRootIsAnOrdinaryUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  Child child([] {
    const gid_t groups[] = {77, 50};
    return ::setgroups(2, groups) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0;
  });
  ASSERT_TRUE(child.connected());
  const auto peer = peer_of(child.socket(), "/proc");
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->uid, 65534u);
  EXPECT_EQ(peer->process.uid, 65534u);
  EXPECT_EQ(peer->groups, (std::vector<std::uint32_t>{50, 77}));
}

TEST(Peers, RootOfAUserNamespaceCountsAsItsMaker) {
  const auto enter = [] {
    if (::geteuid() == 0 && (::setgid(1234) != 0 || ::setuid(1234) != 0)) return false;
    return ::unshare(CLONE_NEWUSER) == 0;
  };
  Child child(enter);
  if (!child.connected()) GTEST_SKIP() << "skipped: this kernel gives no user namespaces to unprivileged users";
  const auto peer = peer_of(child.socket(), "/proc");
  ASSERT_TRUE(peer) << peer.error().message;
  ASSERT_TRUE(peer->user_namespace_owner);
  EXPECT_EQ(*peer->user_namespace_owner, ::geteuid() == 0 ? 1234u : ::geteuid());
}

// Synchronises with the child, which waits until root has written its uid map.
class UidMap {
 public:
  UidMap() { EXPECT_TRUE(::pipe(asked_) == 0 && ::pipe(written_) == 0); }
  // Called by the child after it has made its namespace.
  bool wait() {
    char byte = 0;
    ::close(written_[1]);
    return ::write(asked_[1], "a", 1) == 1 && ::read(written_[0], &byte, 1) == 1;
  }
  // Runs in a thread next to the child's creator; writes a map for each process below `parent`.
  void write(const std::string& pid, const std::string& text) {
    char byte = 0;
    if (::read(asked_[0], &byte, 1) != 1) return;
    std::ofstream("/proc/" + pid + "/gid_map") << text << std::flush;
    std::ofstream("/proc/" + pid + "/uid_map") << text << std::flush;
    EXPECT_EQ(::write(written_[1], "w", 1), 1);
  }

 private:
  int asked_[2] = {-1, -1}, written_[2] = {-1, -1};
};

// As in rootless containers: user 1234 maps the uids 700000 to 700999, and one of these makes a nested namespace.
TEST(Peers, ASubordinateUidCountsAsItsOwnerAtAnyDepth) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root gives a namespace uids";
  for (const bool nested : {false, true}) {
    UidMap map;
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    std::thread writer([&] {
      pid_t pid = 0;
      if (::read(told[0], &pid, sizeof pid) == sizeof pid) map.write(std::to_string(pid), "0 1234 1\n1 700000 1000\n");
    });
    Child child([&] {
      const pid_t self = ::getpid();
      if (::setgid(1234) != 0 || ::setuid(1234) != 0 || ::unshare(CLONE_NEWUSER) != 0) return false;
      if (::write(told[1], &self, sizeof self) != sizeof self || !map.wait()) return false;
      return ::setuid(34) == 0 && (!nested || ::unshare(CLONE_NEWUSER) == 0);
    });
    ::close(told[1]);
    writer.join();
    if (!child.connected()) GTEST_SKIP() << "skipped: this kernel gives no user namespaces to unprivileged users";
    const auto peer = peer_of(child.socket(), "/proc");
    ASSERT_TRUE(peer) << peer.error().message;
    EXPECT_EQ(peer->uid, 700033u);
    EXPECT_EQ(peer->user_namespace_owner, 1234u) << nested;
    EXPECT_EQ(answerable_user("/proc", static_cast<std::uint32_t>(child.pid()), 700033), 1234u);
    EXPECT_EQ(answerable_user("/proc", static_cast<std::uint32_t>(child.pid()), 77), 77u) << "it is not that process";
  }
}

TEST(Processes, HostPidAndNamespacePidFindEachOther) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t outer = ::fork();
  if (outer == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(::geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(9);
    const pid_t inner = ::fork();
    if (inner == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    if (::write(ready[1], &inner, sizeof inner) != sizeof inner) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char bytes[5] = {};
  std::size_t got = 0;
  for (ssize_t length; got < sizeof bytes && (length = ::read(ready[0], bytes + got, sizeof bytes - got)) > 0;)
    got += static_cast<std::size_t>(length);
  ::close(ready[0]);
  if (got != sizeof bytes) {
    ::kill(outer, SIGKILL);
    ::waitpid(outer, nullptr, 0);
    GTEST_SKIP() << "skipped: this kernel gives no pid namespaces to unprivileged users";
  }
  // Either process may have written first: the PID is the four bytes before or after the letter.
  pid_t inner = 0;
  std::memcpy(&inner, bytes[0] == 'r' && bytes[4] != 'r' ? bytes + 1 : bytes, sizeof inner);
  auto process = read_process("/proc", static_cast<std::uint32_t>(inner));
  if (!process) {
    std::memcpy(&inner, bytes + 1, sizeof inner);
    process = read_process("/proc", static_cast<std::uint32_t>(inner));
  }
  ASSERT_TRUE(process);
  EXPECT_EQ(process->namespace_pid, 1u);
  EXPECT_NE(process->pidns_inode, read_process("/proc", static_cast<std::uint32_t>(::getpid()))->pidns_inode);
  const ProcessList list = list_processes("/proc");
  const Search search = find_process(list, process->pidns_inode, 1, process->start_time);
  ASSERT_NE(search.found, nullptr);
  EXPECT_EQ(search.found->pid, static_cast<std::uint32_t>(inner));
  EXPECT_EQ(find_process(list, process->pidns_inode, 1, process->start_time + 10).found, nullptr);
  ::kill(outer, SIGKILL);
  ::waitpid(outer, nullptr, 0);
}

// For /proc/PID/stat the kernel sums the times of all threads, so a process with many threads would delay its readers.
TEST(Processes, AreReadWithoutTheCostOfTheirThreads) {
  namespace fs = std::filesystem;
  std::string proc = (fs::temp_directory_path() / "headgate-proc-XXXXXX").string();
  ASSERT_NE(::mkdtemp(proc.data()), nullptr);
  fs::create_directories(proc + "/41/task/41");
  std::ofstream(proc + "/41/status") << "Pid:\t41\nUid:\t1\t2\n";
  std::ofstream(proc + "/41/task/41/stat") << "41 (first) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 77 0\n";
  const auto process = read_process(proc, 41);
  fs::remove_all(proc);
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_EQ(process->command, "first");
}

TEST(Processes, IncompleteFilesAreANamedError) {
  const std::string status = "Name:\tx\nPid:\t7\nUid:\t1\t2\t3\t4\nNSpid:\t7\t3\n";
  const std::string stat = "7 (a) b) S 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0\n";
  const auto good = parse_process(status, stat);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, (Process{.pid = 7, .namespace_pid = 3, .start_time = 12345, .uid = 2, .command = "a) b"}));
  EXPECT_EQ(parse_process("Pid:\t7\nUid:\t1\t2\n", stat)->namespace_pid, 7u);
  const auto named = [&status](const std::string& name) {
    return parse_process(status, "7 (" + name + ") S 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0\n")->command;
  };
  EXPECT_EQ(named("\xe8\xaa\x9e \xd1\x80"), "\xe8\xaa\x9e \xd1\x80") << "letters, though their bytes alone would steer";
  EXPECT_EQ(named("a\xc2\x9b\x9b\x1b"
                  "b"),
            "a???b");
  EXPECT_EQ(named("12345678901234\xd1\x80"), "12345678901234?") << "cut as the kernel does";
  EXPECT_EQ(parse_process(status, "7 x S").error().message, "the process's /proc files have no name in stat");
  EXPECT_EQ(parse_process(status, "7 (x) S 1").error().message, "the process's /proc files have no start time in stat");
  EXPECT_EQ(parse_process("Uid:\t1\t2\n", stat).error().message, "the process's /proc files have no Pid in status");
  EXPECT_EQ(parse_process("Pid:\t0\nUid:\t1\t2\n", stat).error().message,
            "the process's /proc files have no Pid in status");
  EXPECT_EQ(parse_process("Pid:\t7\nUid:\t1\n", stat).error().message,
            "the process's /proc files have no Uid in status");
  EXPECT_EQ(parse_process("Pid:\t7\nUid:\t1\t2\nNSpid:\t7\tx\n", stat).error().message,
            "the process's /proc files have no number in NSpid of status");
  EXPECT_EQ(parse_process(status, "7 (a\x1b[2J) S 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 0\n")->command,
            "a?[2J");
}

}  // namespace
}  // namespace headgate::identity
