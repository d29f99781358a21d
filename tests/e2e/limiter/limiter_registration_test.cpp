// The built limiter and a daemon's tenant sockets: real processes join, die, outlive the daemon, and are refused.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "guest/ledger/account.hpp"
#include "guest/ledger/registration.hpp"
#include "limiter_run.hpp"
#include "tenancy/registration_server.hpp"

namespace {

using namespace headgate;
using namespace headgate::e2e;
namespace fs = std::filesystem;
namespace asio = boost::asio;

constexpr const char* kFirstGpu = "GPU-10101010-1010-1010-1010-101010101010";
constexpr std::uint64_t kMiB = 1ull << 20;

// headgated's handling of a share's socket, on a loop in a separate thread.
class Daemon {
 public:
  Daemon(const std::string& runtime, const std::string& state) : thread_([this] { context_.run(); }) {
    on_loop([&] {
      tenancy::Adoption adoption;
      shares_.emplace(
          tenancy::Shares::open({runtime, {{kFirstGpu, 1ull << 36}}, {}}, tenancy::Store::open(state).value(), adoption)
              .value());
      processes_.emplace(
          context_.get_executor(), *shares_, "/proc",
          tenancy::Processes::Events{[this](const auto&) { ++joined_; }, [this](const auto&) { ++left_; }});
      doors_.emplace(context_.get_executor(), *shares_, *processes_, "/proc", tenancy::RegistrationServer::Bounds{},
                     tenancy::RegistrationServer::Events{});
      reaped_ = processes_->adopt();
      EXPECT_TRUE(doors_->open_all());
      return 0;
    });
  }
  // As after kill -9: clients get no message.
  ~Daemon() {
    on_loop([&] {
      doors_.reset();
      processes_.reset();
      return 0;
    });
    idle_.reset();
    context_.stop();
    thread_.join();
  }

  template <typename Act>
  std::invoke_result_t<Act> on_loop(Act act) {
    std::packaged_task<std::invoke_result_t<Act>()> task(std::move(act));
    auto result = task.get_future();
    asio::post(context_, std::move(task));
    return result.get();
  }
  template <typename Act>
  static bool within(std::chrono::milliseconds time, Act act) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!act()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  void share(const char* name, std::uint64_t memory, bool everyone = false,
             ledger::FailPolicy policy = ledger::FailPolicy::open) {
    on_loop([&] {
      tenancy::Share share;
      share.name = name;
      share.owner_uid = ::geteuid();
      share.everyone = everyone;
      share.fail_policy = policy;
      share.devices.push_back({.uuid = kFirstGpu, .memory_limit_bytes = memory});
      EXPECT_TRUE(shares_->create(share));
      EXPECT_TRUE(doors_->open(name));
      return 0;
    });
  }
  template <typename Act>
  auto on_shares(Act act) {
    return on_loop([&] { return act(*shares_).has_value(); });
  }
  std::uint64_t used(const char* name) {
    return on_loop([&] { return ledger::used_bytes(shares_->find(name)->pages->usage(), 0); });
  }
  int joined() {
    return on_loop([&] { return joined_; });
  }
  int left() {
    return on_loop([&] { return left_; });
  }
  std::size_t processes(const char* name) {
    return on_loop([&] { return processes_->count_in(name); });
  }
  std::uint32_t reaped() const { return reaped_; }

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> idle_{context_.get_executor()};
  std::thread thread_;
  std::optional<tenancy::Shares> shares_;
  std::optional<tenancy::Processes> processes_;
  std::optional<tenancy::RegistrationServer> doors_;
  int joined_ = 0, left_ = 0;
  std::uint32_t reaped_ = 0;
};

class Registration : public ::testing::Test {
 protected:
  Registration() { fs::permissions(runtime_.path(), fs::perms(0755)); }
  std::string node() const { return runtime_.path() + "/node"; }
  std::string directory(const char* share) const { return node() + "/shares/" + share; }
  std::unique_ptr<Daemon> daemon() const { return std::make_unique<Daemon>(node(), runtime_.path() + "/state.db"); }
  // The tenant's runtime directory is a different one, so all it knows comes from the socket.
  static Tenant at(const std::string& directory, Environment more = {}) {
    Tenant tenant;
    tenant.environment = std::move(more);
    tenant.environment["HEADGATE_SHARE_DIR"] = directory;
    return tenant;
  }
  Runtime::Running start_holding(const char* share, const char* bytes) const {
    auto running = runtime_.start(at(directory(share), {{"PROBE_WAIT", "1"}}), {"alloc", bytes});
    EXPECT_EQ(running.next_line(), "ready: 0");
    EXPECT_EQ(running.next_line(), std::string("alloc ") + bytes + ": 0");
    return running;
  }

  Runtime runtime_;
};

TEST_F(Registration, ATenantIsHeldByTheDaemonsShareAndReaped) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  auto tenant = start_holding("s", "1000000");
  EXPECT_EQ(headgated->used("s"), 1'000'000u);
  EXPECT_EQ(headgated->processes("s"), 1u);
  EXPECT_NE(runtime_.run(at(directory("s")), {"alloc", "48577", "48576"}).out.find("alloc 48577: 2\nalloc 48576: 0\n"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(runtime_.path() + "/run")) << "the tenant made its own pages";
  tenant.kill_and_wait();
  EXPECT_TRUE(Daemon::within(std::chrono::seconds(1), [&] { return headgated->used("s") == 0; }));
}

TEST_F(Registration, TenantsOutliveTheDaemonAndTheNextAdoptsThem) {
  auto headgated = daemon();
  headgated->share("s", kMiB);
  auto tenant = start_holding("s", "1000000");
  auto victim = start_holding("s", "5");
  headgated.reset();
  victim.kill_and_wait();
  headgated = daemon();
  EXPECT_EQ(headgated->reaped(), 1u);
  EXPECT_EQ(headgated->used("s"), 1'000'000u);
  EXPECT_EQ(headgated->processes("s"), 1u);
  EXPECT_EQ(tenant.finish().status, 0);
  EXPECT_TRUE(Daemon::within(std::chrono::seconds(1), [&] { return headgated->processes("s") == 0; }));
  EXPECT_EQ(headgated->used("s"), 0u);
  start_holding("s", "1048576").finish();  // through the socket that was bound again
}

TEST_F(Registration, AForkedChildIsASeparateProcess) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  auto parent = runtime_.start(at(directory("s")), {"fork"});
  EXPECT_EQ(parent.next_line(), "parent ready 0, alloc 0");
  EXPECT_EQ(parent.next_line(), "child ready 0, alloc 0");
  EXPECT_EQ(headgated->processes("s"), 2u);
  EXPECT_EQ(headgated->used("s"), 1500u);
  parent.finish();
  EXPECT_TRUE(Daemon::within(std::chrono::seconds(5), [&] { return headgated->left() == 2; }));
  EXPECT_EQ(headgated->used("s"), 0u);
}

TEST_F(Registration, AProgramWithRaisedPrivilegesUsesNoSocket) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  EXPECT_EQ(runtime_.run(at(directory("s")), {"secure"}).status, 0);
  EXPECT_EQ(headgated->joined(), 0);
}

TEST_F(Registration, AContradictingEnvironmentIsRefused) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  const Outcome other = runtime_.run(at(directory("s"), {{"HEADGATE_SHARE", "t"}}), {"alloc", "5"});
  EXPECT_NE(other.out.find("ready: 800"), std::string::npos) << other.out;
  EXPECT_NE(other.err.find("HEADGATE_SHARE names the share t, and HEADGATE_SHARE_DIR is of the share s"),
            std::string::npos)
      << other.err;
  const Outcome larger = runtime_.run(at(directory("s"), {{"HEADGATE_MEM", "2MiB"}}), {"alloc", "5"});
  EXPECT_NE(larger.out.find("ready: 800"), std::string::npos) << larger.out;
  EXPECT_NE(larger.err.find("the environment asks for another memory limit"), std::string::npos) << larger.err;
  const Outcome same =
      runtime_.run(at(directory("s"), {{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_GPU", "0"}}), {"alloc", "5"});
  EXPECT_NE(same.out.find("ready: 0"), std::string::npos) << same.out << same.err;
  EXPECT_TRUE(Daemon::within(std::chrono::seconds(5), [&] { return headgated->processes("s") == 0; }));
}

TEST_F(Registration, ADrainedShareAdmitsNoProcess) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  auto tenant = start_holding("s", "5");
  EXPECT_TRUE(headgated->on_shares([](tenancy::Shares& shares) { return shares.drain("s"); }));
  const Outcome late = runtime_.run(at(directory("s")), {"alloc", "5"});
  EXPECT_NE(late.out.find("ready: 800"), std::string::npos) << late.out;
  EXPECT_NE(late.err.find("is being drained: it takes no new process"), std::string::npos) << late.err;
  EXPECT_EQ(headgated->processes("s"), 1u);
  EXPECT_TRUE(headgated->on_shares([](tenancy::Shares& shares) { return shares.resume("s"); }));
  EXPECT_NE(runtime_.run(at(directory("s")), {"alloc", "5"}).out.find("alloc 5: 0"), std::string::npos);
  tenant.finish();
}

TEST_F(Registration, ADrainedShareAdmitsNoProcessByItsFilesEither) {
  {
    const auto headgated = daemon();
    headgated->share("s", kMiB);
    EXPECT_TRUE(headgated->on_shares([](tenancy::Shares& shares) { return shares.drain("s"); }));
  }
  const Outcome late = runtime_.run(at(directory("s"), {{"HEADGATE_FAIL_POLICY", "closed"}}), {"alloc", "5"});
  EXPECT_NE(late.out.find("ready: 800"), std::string::npos) << late.out;
  EXPECT_NE(late.err.find("is being drained"), std::string::npos) << late.err;
}

TEST_F(Registration, NoVariableDisablesTheDaemonsShare) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  for (const char* name : {"HEADGATE_DISABLE", "CUDA_DISABLE_CONTROL", "DISABLE_VGPU_CONTROL"}) {
    const Outcome outcome = runtime_.run(at(directory("s"), {{name, "true"}}), {"alloc", "1000000", "100000"});
    EXPECT_NE(outcome.out.find("alloc 1000000: 0\nalloc 100000: 2\n"), std::string::npos) << name << outcome.out;
  }
}

// As in a container with the share's directory mounted in the standard place.
TEST_F(Registration, AMountedShareHoldsForAnyEnvironment) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  headgated->share("wide", 64 * kMiB);
  const std::string told = runtime_.path() + "/told";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/run", "tmpfs", 0, nullptr) != 0)
      ::_exit(77);
    fs::create_directories("/run/headgate/share");
    if (::mount(directory("s").c_str(), "/run/headgate/share", nullptr, MS_BIND, nullptr) != 0) ::_exit(77);
    std::string all;
    for (const Environment& environment :
         {Environment{}, Environment{{"HEADGATE_DISABLE", "1"}}, Environment{{"HEADGATE_SHARE_DIR", directory("wide")}},
          Environment{{"HEADGATE_MEM", "64MiB"}}}) {
      Tenant tenant;
      tenant.environment = environment;
      const Outcome outcome = runtime_.run(tenant, {"alloc", "1000000", "100000"});
      all += outcome.out + outcome.err + "--\n";
    }
    const int fd = ::open(told.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::_exit(::write(fd, all.data(), all.size()) == static_cast<ssize_t>(all.size()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespaces here";
  ASSERT_EQ(status, 0);
  std::ifstream file(told);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::string held = "ready: 0\nalloc 1000000: 0\nalloc 100000: 2\n";
  int times = 0;
  for (std::size_t at = 0; (at = all.find(held, at)) != std::string::npos; at += held.size()) ++times;
  EXPECT_EQ(times, 3) << all;
  EXPECT_TRUE(all.contains("the environment asks for another memory limit")) << all;
}

TEST_F(Registration, AMissingShareIsNoMissingDaemon) {
  auto headgated = daemon();
  headgated->share("s", kMiB);
  for (const bool there : {true, false}) {
    if (!there) headgated.reset();
    for (const std::string& path : {directory("gone"), directory("gone") + "/"}) {
      const Outcome outcome = runtime_.run(at(path, {{"HEADGATE_FAIL_POLICY", "open"}}), {"alloc", "5"});
      EXPECT_TRUE(outcome.out.contains("ready: 800")) << outcome.out << outcome.err;
      EXPECT_TRUE(
          outcome.err.contains("the share gone is gone: its run has ended, or it was removed; start this program by "
                               "headgate run"))
          << outcome.err;
    }
  }
  // Nothing of headgate is installed on this machine.
  const Outcome nothing = runtime_.run(at(runtime_.path() + "/nowhere/shares/s"), {"alloc", "5"});
  EXPECT_TRUE(nothing.out.contains("alloc 5: 0")) << nothing.out << nothing.err;
  EXPECT_TRUE(nothing.err.contains("NOT HELD")) << nothing.err;
}

TEST_F(Registration, ARemovedMountedShareRefusesPrograms) {
  const std::string told = runtime_.path() + "/told";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/run", "tmpfs", 0, nullptr) != 0)
      ::_exit(77);
    fs::create_directories("/run/headgate/share");
    fs::create_directories(directory("s"));
    if (::mount(directory("s").c_str(), "/run/headgate/share", nullptr, MS_BIND, nullptr) != 0) ::_exit(77);
    fs::remove(directory("s"));
    const Outcome outcome = runtime_.run({}, {"alloc", "5"});
    std::ofstream(told) << outcome.out << outcome.err;
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespaces here";
  ASSERT_EQ(status, 0);
  std::ifstream file(told);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(all.contains("ready: 800")) << all;
  EXPECT_TRUE(all.contains("is gone: its run has ended")) << all;
}

TEST_F(Registration, ARelativeDirectoryIsAnErrorThatNamesIt) {
  const Outcome outcome = runtime_.run(at("shares/s"), {"alloc", "5"});
  EXPECT_NE(outcome.err.find("HEADGATE_SHARE_DIR='shares/s'"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("an absolute path"), std::string::npos) << outcome.err;
}

// A wrong path, or a directory that an engine created as mount point: it is no share under any fail policy.
TEST_F(Registration, ADirectoryThatIsNoShareIsRefused) {
  const std::string empty = runtime_.path() + "/empty", file = runtime_.path() + "/file";
  fs::create_directory(empty);
  std::ofstream(file) << "x";
  for (const std::string& path : {empty, file, std::string("/proc")}) {
    const Outcome outcome = runtime_.run(at(path, {{"HEADGATE_FAIL_POLICY", "open"}}), {"alloc", "5"});
    EXPECT_TRUE(outcome.out.contains("ready: 800")) << path << outcome.out;
    EXPECT_TRUE(outcome.err.contains("no share lies here: there is neither tenant.sock nor policy")) << outcome.err;
  }
}

TEST_F(Registration, TheFilesServeWithoutADaemon) {
  {
    daemon()->share("s", kMiB);
  }
  const Outcome outcome = runtime_.run(at(directory("s")), {"alloc", "1000000", "100000"});
  EXPECT_NE(outcome.out.find("alloc 1000000: 0\nalloc 100000: 2\n"), std::string::npos) << outcome.out << outcome.err;
}

// Listens on a share's socket path in the test itself.
int listen_at(const std::string& path) {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener, 8), 0);
  return listener;
}

TEST_F(Registration, AStoppedDaemonBlocksNoProgramForEver) {
  {
    daemon()->share("s", kMiB);
  }
  const std::string path = directory("s") + "/tenant.sock";
  fs::remove(path);
  const int deaf = listen_at(path);
  const Outcome outcome = runtime_.run(at(directory("s"), {{"HEADGATE_LOG", "warn"}}), {"alloc", "1000000", "100000"});
  EXPECT_NE(outcome.out.find("alloc 1000000: 0\nalloc 100000: 2\n"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("headgated does not answer; trying the share's files"), std::string::npos) << outcome.err;
  ::close(deaf);
}

// A slow disk or machine is no reason to run without limits.
TEST_F(Registration, ABusyDaemonIsWaitedFor) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  const std::string path = directory("s") + "/tenant.sock", real = directory("s") + "/real.sock";
  fs::rename(path, real);
  const int slow = listen_at(path);
  std::thread doorman([&] {
    const int socket = ::accept4(slow, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    // Twice the time after which a client would normally give up.
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ledger::kRegistrationNs));
    fs::rename(real, path);
    const ledger::Refuse no{ledger::head_of<ledger::Refuse>(ledger::MessageType::refuse), ledger::Refusal::busy,
                            "try again"};
    (void)::send(socket, &no, sizeof no, MSG_NOSIGNAL);
    ::close(socket);
  });
  const Outcome outcome = runtime_.run(at(directory("s"), {{"HEADGATE_LOG", "warn"}}), {"alloc", "5"});
  ::shutdown(slow, SHUT_RDWR);
  doorman.join();
  ::close(slow);
  EXPECT_TRUE(outcome.out.contains("ready: 0\nalloc 5: 0\n")) << outcome.out << outcome.err;
  EXPECT_FALSE(outcome.err.contains("trying the share's files")) << outcome.err;
  EXPECT_EQ(headgated->joined(), 1);
}

// As when all ranks of a job start at once.
TEST_F(Registration, AProcessRetriesIfTheSocketIsCrowded) {
  const auto headgated = daemon();
  headgated->share("s", kMiB);
  const std::string path = directory("s") + "/tenant.sock", real = directory("s") + "/real.sock";
  fs::rename(path, real);
  const int crowded = listen_at(path);
  int turned_away = 0;
  std::thread doorman([&] {
    for (; turned_away < 2; ++turned_away) {
      const int socket = ::accept4(crowded, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      // Before the second refusal arrives, so that the next attempt reaches the daemon.
      if (turned_away == 1) fs::rename(real, path);
      ledger::Refuse no{ledger::head_of<ledger::Refuse>(ledger::MessageType::refuse), ledger::Refusal::busy,
                        "try again"};
      (void)::send(socket, &no, sizeof no, MSG_NOSIGNAL);
      ::close(socket);
    }
  });
  const Outcome outcome = runtime_.run(at(directory("s"), {{"HEADGATE_FAIL_POLICY", "closed"}}), {"alloc", "5"});
  ::shutdown(crowded, SHUT_RDWR);
  doorman.join();
  ::close(crowded);
  EXPECT_NE(outcome.out.find("ready: 0\nalloc 5: 0\n"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(turned_away, 2);
  // It connects for the share's GPUs, before the driver counts them, and for its slot; it counts as one process.
  EXPECT_EQ(headgated->joined(), 1);
}

// Copies the probe and its libraries to where another uid can run them; its output goes to a file.
class AsNobody {
 public:
  explicit AsNobody(const std::string& folder) : folder_(folder + "/stage") {
    fs::create_directories(folder_);
    const fs::path tests = LIMITER_TESTS_DIR;
    for (const fs::path& file : {tests / "limiter_probe", tests / "libprobe-helper.so", fs::path(LIMITER_LIBRARY)})
      fs::copy_file(file, folder_ / file.filename());
    fs::copy(tests / "quiet", folder_ / "quiet", fs::copy_options::recursive);
  }
  Outcome run(const std::string& directory, const char* fail_policy, uid_t uid) const {
    const std::string out = folder_ / "out", err = folder_ / "err";
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string preload = "LD_PRELOAD=" + (folder_ / "libheadgate.so").string(),
                        path = "LD_LIBRARY_PATH=" + (folder_ / "quiet").string() + ":" + folder_.string(),
                        share = "HEADGATE_SHARE_DIR=" + directory,
                        policy = std::string("HEADGATE_FAIL_POLICY=") + fail_policy, probe = folder_ / "limiter_probe";
      const char* const environment[] = {preload.c_str(), path.c_str(), share.c_str(), policy.c_str(), nullptr};
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(9);
      const char* const arguments[] = {probe.c_str(), "alloc", "1000000", "100000", nullptr};
      ::execve(probe.c_str(), const_cast<char**>(arguments), const_cast<char**>(environment));
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto text = [](const std::string& file) {
      std::string all(fs::file_size(file), '\0');
      const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      all.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(fd, all.data(), all.size()))));
      ::close(fd);
      return all;
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text(out), text(err)};
  }

 private:
  fs::path folder_;
};

TEST_F(Registration, AnotherUidWithoutFileRightsIsHeld) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  auto headgated = daemon();
  headgated->share("open", kMiB, true);
  headgated->share("closed", kMiB);
  const AsNobody nobody(runtime_.path());
  const Outcome held = nobody.run(directory("open"), "closed", 65534);
  EXPECT_NE(held.out.find("alloc 1000000: 0\nalloc 100000: 2\n"), std::string::npos) << held.out << held.err;
  const Outcome stranger = nobody.run(directory("closed"), "open", 65534);
  EXPECT_NE(stranger.out.find("ready: 800"), std::string::npos) << stranger.out << stranger.err;
  EXPECT_NE(stranger.err.find("uid 65534 may not use the share 'closed'"), std::string::npos) << stranger.err;
  // Without a daemon nothing can limit it, so the fail policy decides: the share's before the environment's.
  headgated->share("strict", kMiB, true, ledger::FailPolicy::closed);
  headgated.reset();
  EXPECT_NE(nobody.run(directory("strict"), "open", 65534).out.find("ready: 800"), std::string::npos);
  EXPECT_NE(nobody.run(directory("open"), "closed", 65534).out.find("ready: 800"), std::string::npos);
  const Outcome unheld = nobody.run(directory("open"), "open", 65534);
  EXPECT_NE(unheld.out.find("alloc 1000000: 0\nalloc 100000: 0\n"), std::string::npos) << unheld.out << unheld.err;
  EXPECT_NE(unheld.err.find("NOT HELD"), std::string::npos) << unheld.err;
}

}  // namespace
