// How the keeper reacts when a tenant, a client, a server or a control daemon ends, fails or hangs. Tests make the
// stand-in fail on demand.
#include "mps/keeper.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "identity/process.hpp"
#include "mps/test_mps.hpp"
#include "sim/mps/wire.hpp"

namespace headgate::mps {
namespace {

using std::chrono::milliseconds;

// A process that is a client of the control daemon at a pipe directory, until it ends.
class FakeClient {
 public:
  explicit FakeClient(const std::string& pipe) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const int connection = sim::mps::connect_to(pipe);
      const sim::mps::Hello hello;
      ::send(connection, &hello, sizeof hello, MSG_NOSIGNAL);
      sim::mps::Welcome welcome;
      const bool in = ::recv(connection, &welcome, sizeof welcome, 0) == static_cast<ssize_t>(sizeof welcome);
      const auto byte = static_cast<char>(in ? static_cast<int>(welcome.answer) : 0);
      if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char byte = 0;
    if (::read(ends[0], &byte, 1) == 1) answer_ = static_cast<sim::mps::Answer>(byte);
    ::close(ends[0]);
  }
  ~FakeClient() { end(); }
  FakeClient(const FakeClient&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] sim::mps::Answer answer() const { return answer_; }

 private:
  pid_t pid_ = 0;
  sim::mps::Answer answer_{};
};

class MpsKeeper : public ::testing::Test {
 protected:
  ~MpsKeeper() override { ::unsetenv("HEADGATE_SIM_MPS"); }

  // `manners`: options of the stand-in (HEADGATE_SIM_MPS).
  void start(const char* manners = "", Limits limits = {}, milliseconds look = milliseconds(20)) {
    ::setenv("HEADGATE_SIM_MPS", manners, 1);
    auto options = folder_.options(tool_);
    options.limits = limits;
    if (step_) options.step = step_;
    keeper_.emplace(std::move(options),
                    KeeperTimes{.look = look, .unsettled = milliseconds(20), .after_news = milliseconds(1)});
    ASSERT_TRUE(keeper_->start());
  }
  Result<Variables> acquire(const Sleeper& process) {
    std::promise<Result<Variables>> promise;
    keeper_->acquire(tenant_of(process), [&](Result<Variables> variables) { promise.set_value(std::move(variables)); });
    return promise.get_future().get();
  }
  [[nodiscard]] std::string pipe() const { return folder_.places().pipe; }
  [[nodiscard]] bool is_told(const std::string& kind) const { return !folder_.told(kind).empty(); }

  // The tool becomes this script; `$@` are its words.
  void write_tool(const std::string& line) {
    tool_ = std::filesystem::path(folder_.base()).parent_path() / "tool";
    std::ofstream(tool_ + ".new") << "#!/bin/sh\n" << line << "\n";
    std::filesystem::permissions(tool_ + ".new", std::filesystem::perms::owner_all);
    std::filesystem::rename(tool_ + ".new", tool_);
  }

  MpsFolder folder_;
  std::string tool_ = HEADGATE_SIM_MPS_TOOL;
  std::function<void()> step_;
  std::optional<Keeper> keeper_;
};

constexpr const char* kSoundTool = "exec " HEADGATE_SIM_MPS_TOOL " \"$@\"";

TEST_F(MpsKeeper, ATenantThatEndsIsReleased) {
  start();
  Sleeper one, other;
  ASSERT_TRUE(acquire(one));
  ASSERT_TRUE(acquire(other));
  one.end();
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).holders.size() == 1; }));
  EXPECT_NE(folder_.running_daemon(), 0u);
  other.end();
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().empty() && folder_.running_daemon() == 0; }));
}

TEST_F(MpsKeeper, AFaultNamesItsClientsAndRestartsTheGroup) {
  start("550");
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  FakeClient one(pipe()), other(pipe());
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == 2; }));
  EXPECT_EQ(keeper_->groups().at(0).state, ServerState::active);
  const std::uint32_t before = folder_.running_daemon();
  folder_.demand("fault");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.fault"); }));
  const std::string text = folder_.told("mps.fault")[0];
  EXPECT_NE(text.find(std::to_string(one.pid())), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(other.pid())), std::string::npos) << text;
  EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::not_ready);
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).state == ServerState::fault; }));
  one.end();
  EXPECT_FALSE(is_told("mps.restarted")) << "the other one has not ended";
  other.end();
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.running_daemon(), before);
  EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::accepted);
}

// With an hour between two checks only the log can tell.
TEST_F(MpsKeeper, NamesFaultsOfARemadeLogDirectory) {
  start("550", {}, std::chrono::hours(1));
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  std::filesystem::remove_all(folder_.places().log);
  std::filesystem::create_directory(folder_.places().log);
  const Sleeper other;
  ASSERT_TRUE(acquire(other));  // the keeper looks at its watches with each piece of work
  const FakeClient client(pipe());
  folder_.demand("fault");
  EXPECT_TRUE(comes_true([&] { return is_told("mps.fault"); }));
}

// One look of the slow tool takes longer than three looks of a fast one. With an hour between two checks no later look
// makes up for looks that were given up.
TEST_F(MpsKeeper, AFaultThatASlowToolReportsLateIsNamed) {
  start("550,slow", {}, std::chrono::hours(1));
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  folder_.demand("late");
  EXPECT_TRUE(comes_true([&] { return is_told("mps.fault"); }));
}

// Clients of a faulty server often end at once, before anyone can ask the tool. 535 cannot tell a fault at all.
TEST(MpsFault, IsNamedAfterAllItsClientsHaveEnded) {
  for (const char* release : {"550", ""})
    for (const std::string then : {"look", "release", "death"}) {
      const std::string name = std::string(release) + " " + then;
      const Variable manners("HEADGATE_SIM_MPS", release);
      MpsFolder folder;
      Manager manager(folder.options(HEADGATE_SIM_MPS_TOOL));
      const Sleeper tenant;
      ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
      const std::uint32_t daemon = folder.running_daemon();
      FakeClient one(folder.places().pipe), other(folder.places().pipe);
      folder.demand("fault");
      ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder.places().log + "/demand"); }));
      const std::vector<pid_t> pids = {one.pid(), other.pid()};
      one.end();
      other.end();
      const Tool tool(HEADGATE_SIM_MPS_TOOL, folder.places(), kTestUuid);
      const auto is_empty = [&] {
        const auto servers = tool.servers();
        return servers && servers->size() == 1 && tool.clients(servers->front())->empty();
      };
      ASSERT_TRUE(comes_true(is_empty)) << "the server has forgotten them and their fault";
      if (then == "release") manager.release(tenant.mark());
      if (then == "death") {
        ASSERT_TRUE(kill_daemon(*daemon_at(folder.places().pipe, "/proc"), ItsServers::kill, "/proc"));
      }
      if (then != "release") manager.look();
      ASSERT_EQ(folder.told("mps.fault").size(), 1u) << name;
      for (const pid_t pid : pids)
        EXPECT_NE(folder.told("mps.fault")[0].find(std::to_string(pid)), std::string::npos) << name;
      EXPECT_EQ(folder.told("mps.restarted").size(), then == "release" ? 0u : 1u) << name;
      EXPECT_NE(folder.running_daemon(), daemon) << name;
      manager.look();
      EXPECT_EQ(folder.told("mps.fault").size(), 1u) << name << ": the server is sound";
      EXPECT_FALSE(manager.is_unsettled({kTestUuid, 0})) << name;
    }
}

// A server that was left with its clients when its control daemon was replaced writes into the same log.
TEST_F(MpsKeeper, AFaultOfAFormerServerIsNotItsSuccessors) {
  for (const char* release : {"550", ""}) {
    const Variable manners("HEADGATE_SIM_MPS", release);
    MpsFolder folder;
    Manager manager(folder.options(HEADGATE_SIM_MPS_TOOL));
    const Sleeper tenant, former;
    ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
    FakeClient client(folder.places().pipe);
    manager.look();
    ASSERT_EQ(manager.groups().at(0).clients, std::vector{client.pid()});
    const std::string begin = "[2026-11-27 10:00:00.000 Server " + std::to_string(former.mark().pid) + "] ";
    std::ofstream(folder.places().log + "/server.log", std::ios::app)
        << begin << "Client process 4711 encountered a fatal GPU error.\n"
        << begin << "Status of client {4712, 1} is INACTIVE\n";
    const std::uint32_t daemon = folder.running_daemon();
    for (int looks = 0; looks < 5; ++looks) manager.look();
    ASSERT_EQ(folder.told("mps.fault").size(), 1u) << release;
    const std::string text = folder.told("mps.fault")[0];
    EXPECT_NE(text.find("4711, 4712"), std::string::npos) << text;
    EXPECT_EQ(text.find(std::to_string(client.pid())), std::string::npos) << text;
    EXPECT_NE(manager.groups().at(0).state, ServerState::fault) << release;
    EXPECT_FALSE(manager.is_unsettled({kTestUuid, 0})) << release;
    client.end();
    manager.look();
    EXPECT_EQ(folder.running_daemon(), daemon) << "it is not restarted for it";

    const FakeClient next(folder.places().pipe);
    folder.demand("fault");
    ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder.places().log + "/demand"); }));
    manager.look();
    ASSERT_EQ(folder.told("mps.fault").size(), 2u) << release;
    EXPECT_NE(folder.told("mps.fault")[1].find(std::to_string(next.pid())), std::string::npos);
    EXPECT_EQ(manager.groups().at(0).state, ServerState::fault) << release;
  }
}

// Each look is a process of the tool, so news of one group must not cost one for each of the others.
TEST_F(MpsKeeper, ALineOfALogCausesLooksAtItsGroupAlone) {
  const std::string calls = folder_.base() + ".calls";
  write_tool("echo \"$CUDA_MPS_PIPE_DIRECTORY\" >>" + calls + "; " + std::string(kSoundTool));
  start("", {}, std::chrono::hours(1));
  const Sleeper tenant, other;
  ASSERT_TRUE(acquire(tenant));
  std::promise<bool> acquired;
  keeper_->acquire(tenant_of(other, {}, 1), [&](const auto& done) { acquired.set_value(done.has_value()); });
  ASSERT_TRUE(acquired.get_future().get());
  std::vector<std::unique_ptr<FakeClient>> clients;
  for (std::size_t count = 1; count <= 10; ++count) {
    clients.push_back(std::make_unique<FakeClient>(pipe()));
    ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == count; })) << count;
  }
  std::map<std::string, int> looks;
  std::ifstream file(calls);
  for (std::string line; std::getline(file, line);) ++looks[line];
  EXPECT_GE(looks[pipe()], 10);
  EXPECT_LE(looks[folder_.places(1).pipe], 6) << "its start, its settings, and looks after them";
}

// As after a kill with work under way. It looks well, and only its list of clients tells.
TEST_F(MpsKeeper, AServerThatListsAnEndedClientIsReplacedOnceTheOthersHaveEnded) {
  for (const char* release : {"550", ""}) {
    keeper_.reset();
    start(release, {.quit = milliseconds(100), .wedged = milliseconds(60)});
    const Sleeper tenant;
    ASSERT_TRUE(acquire(tenant));
    FakeClient victim(pipe()), neighbour(pipe());
    ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == 2; }));
    const std::uint32_t before = folder_.running_daemon();
    const std::size_t restarts = folder_.told("mps.restarted").size();
    folder_.demand("wedge");
    ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_.places().log + "/demand"); }));
    const std::string name = std::to_string(victim.pid()), other = std::to_string(neighbour.pid());
    victim.end();
    ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).state == ServerState::wedged; })) << release;
    const std::string text = folder_.told("mps.wedged").back();
    EXPECT_NE(text.find("still lists client " + name + ", which has ended"), std::string::npos) << text;
    EXPECT_NE(text.find("once its clients have ended: processes " + other), std::string::npos) << text;
    EXPECT_EQ(folder_.running_daemon(), before);
    EXPECT_TRUE(mark_of(static_cast<std::uint32_t>(neighbour.pid()), "/proc")) << "nothing ends a client";
    neighbour.end();
    ASSERT_TRUE(comes_true([&] { return folder_.told("mps.restarted").size() > restarts; })) << release;
    EXPECT_NE(folder_.running_daemon(), before);
    EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::accepted);
    EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).state != ServerState::wedged; }));
  }
}

// The dead client is not listed any more, and the next program waits for ever in its first call.
TEST_F(MpsKeeper, AServerThatLeavesARequestUnansweredIsReplaced) {
  start("", {.quit = milliseconds(100), .wedged = milliseconds(60)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  {
    const FakeClient first(pipe());
  }  // so that there is a server
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).servers == 1; }));
  folder_.demand("wedge");
  ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_.places().log + "/demand"); }));
  const UniqueFd waits(sim::mps::connect_to(pipe()));
  const sim::mps::Hello hello;
  ASSERT_EQ(::send(waits.get(), &hello, sizeof hello, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof hello));
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.told("mps.wedged").at(0).find("does not answer the request of a new client"), std::string::npos);
  sim::mps::Welcome welcome;
  EXPECT_EQ(::recv(waits.get(), &welcome, sizeof welcome, 0), 0) << "its call returns";
  EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::accepted);
}

TEST_F(MpsKeeper, AFaultThatTheLogOfRelease535TellsIsShown) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  FakeClient client(pipe());
  folder_.demand("fault");
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).state == ServerState::fault; }));
  EXPECT_NE(folder_.told("mps.fault").at(0).find(std::to_string(client.pid())), std::string::npos);
  client.end();
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).state == ServerState::unknown; }));
}

TEST_F(MpsKeeper, AUserBehindAnothersServerIsInformed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start("", {}, std::chrono::hours(1));  // not by the look each 10 s
  const Sleeper tenant, guest(12345);
  ASSERT_TRUE(comes_true([&] {
    const auto process = identity::read_process("/proc", guest.mark().pid);
    return process && process->uid == 12345;
  }));
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  ASSERT_TRUE(acquire(guest));
  ASSERT_TRUE(comes_true([&] { return is_told("mps.queued"); }));
  const std::string text = folder_.told("mps.queued").at(0);
  EXPECT_NE(text.find(std::to_string(guest.mark().pid) + " of uid 12345"), std::string::npos) << text;
}

TEST_F(MpsKeeper, ARelease535ServerIsShownAsUnknown) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == 1; }));
  EXPECT_EQ(word_of(keeper_->groups().at(0).state), "unknown");
}

TEST_F(MpsKeeper, AControlDaemonThatDiesIsStartedAgain) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t before = folder_.running_daemon();
  folder_.demand("death");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.told("mps.died").at(0).find(std::to_string(before)), std::string::npos);
  EXPECT_NE(folder_.running_daemon(), before);
}

TEST_F(MpsKeeper, ADetachedClientLeavesItsNeighbour) {
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient one(pipe()), other(pipe());
  EXPECT_EQ(keeper_->take_off(one.pid(), milliseconds(20'000)), true);
  EXPECT_EQ(keeper_->take_off(one.pid(), milliseconds(20'000)), false) << "it is no client any more";
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients == std::vector{other.pid()}; }));
}

TEST_F(MpsKeeper, AServerThatKeepsAClientIsRestarted) {
  start("", {.terminate = milliseconds(50)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  const std::uint32_t before = folder_.running_daemon();
  folder_.demand("wedge");
  ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_.places().log + "/demand"); }));
  const auto done = keeper_->take_off(client.pid(), milliseconds(20'000));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unreachable);
  EXPECT_NE(folder_.told("mps.wedged").at(0).find(std::to_string(client.pid())), std::string::npos);
  EXPECT_TRUE(is_told("mps.restarted"));
  EXPECT_NE(folder_.running_daemon(), before);
  EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::accepted);
}

TEST_F(MpsKeeper, ASilentControlDaemonIsReplaced) {
  start("", {.quit = milliseconds(50), .answer = milliseconds(100)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t before = folder_.running_daemon();
  folder_.demand("silence");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.wedged") && is_told("mps.restarted"); }));
  EXPECT_NE(folder_.running_daemon(), before);
}

// The control daemon is well, and only what it asks the server is not answered: the clients hang with it.
TEST_F(MpsKeeper, AServerThatDoesNotAnswerIsReplacedToo) {
  start("550", {.quit = milliseconds(50), .answer = milliseconds(100)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).clients.size() == 1; }));
  const auto servers = Tool(HEADGATE_SIM_MPS_TOOL, folder_.places(), kTestUuid).servers();
  ASSERT_TRUE(servers && servers->size() == 1);
  folder_.demand("stuck");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.told("mps.wedged").at(0).find("its MPS server is wedged"), std::string::npos);
  EXPECT_FALSE(mark_of(static_cast<std::uint32_t>(servers->front()), "/proc"));
  EXPECT_EQ(FakeClient(pipe()).answer(), sim::mps::Answer::accepted);
}

// A call that does not return: the group is restarted for the tenant that has met it, and not at the next look.
TEST(MpsWedge, IsMetByATenantThatIsLetInAllTheSame) {
  MpsFolder folder;
  auto options = folder.options(HEADGATE_SIM_MPS_TOOL);
  options.limits = {.quit = milliseconds(50), .answer = milliseconds(300)};
  Manager manager(options);
  const Sleeper one, other;
  ASSERT_TRUE(manager.acquire(tenant_of(one, {.percent = 30})));
  const std::uint32_t before = folder.running_daemon();
  folder.demand("silence");
  ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder.places().log + "/demand"); }));
  const auto variables = manager.acquire(tenant_of(other, {.percent = 60}));
  EXPECT_TRUE(variables) << variables.error().message;
  EXPECT_EQ(folder.told("mps.wedged").size(), 1u);
  EXPECT_NE(folder.running_daemon(), before);
  EXPECT_EQ(manager.groups().at(0).settings, (Settings{.percent = 60}));
  folder.demand("silence");
  ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder.places().log + "/demand"); }));
  EXPECT_FALSE(manager.take_off(::getpid()));
  EXPECT_EQ(folder.told("mps.wedged").size(), 2u);
  EXPECT_EQ(folder.told("mps.restarted").size(), 2u);
}

// A slow disk, for example: neither the control daemon nor its server is at fault.
TEST_F(MpsKeeper, OneLateAnswerEndsNoClient) {
  write_tool("[ -e \"$0.stall\" ] && rm \"$0.stall\" && exec sleep 600; " + std::string(kSoundTool));
  const auto stall = [this] { std::ofstream(tool_ + ".stall") << ""; };
  const Variable manners("HEADGATE_SIM_MPS", "550");
  auto options = folder_.options(tool_);
  options.limits.answer = milliseconds(1'000);
  Manager manager(options);
  const Sleeper one, other;
  ASSERT_TRUE(manager.acquire(tenant_of(one, {.percent = 30})));
  const std::uint32_t daemon = folder_.running_daemon();
  const FakeClient client(pipe());
  ASSERT_TRUE(comes_true([&] {
    manager.look();
    return manager.groups().at(0).clients == std::vector{client.pid()};
  }));
  stall();
  manager.look();
  EXPECT_EQ(folder_.told("mps.failed").size(), 1u);
  stall();
  const auto variables = manager.acquire(tenant_of(other, {.percent = 60}));
  EXPECT_TRUE(variables) << variables.error().message;
  stall();
  EXPECT_FALSE(manager.take_off(::getpid()));
  EXPECT_TRUE(folder_.told("mps.wedged").empty()) << folder_.told("mps.wedged")[0];
  EXPECT_EQ(folder_.running_daemon(), daemon);
  manager.look();
  EXPECT_EQ(manager.groups().at(0).clients, std::vector{client.pid()}) << "its server lives";
  EXPECT_EQ(manager.groups().at(0).restarts, 0u);
}

// The control daemon that replaces a silent one does not take its limits either.
TEST_F(MpsKeeper, ATenantIsRefusedWhereItsLimitsAreNotInForce) {
  write_tool(kSoundTool);
  auto options = folder_.options(tool_);
  options.limits.answer = milliseconds(1'000);
  Manager manager(options);
  const Sleeper one, other;
  ASSERT_TRUE(manager.acquire(tenant_of(one, {.percent = 30})));
  write_tool("[ $# -eq 0 ] && exec sleep 600; " + std::string(kSoundTool));
  const auto refused = manager.acquire(tenant_of(other, {.percent = 60}));
  EXPECT_FALSE(refused);
  EXPECT_EQ(folder_.running_daemon(), 0u) << "none runs without its limits";
  write_tool(kSoundTool);
  manager.look();
  EXPECT_EQ(folder_.told("mps.restarted").size(), 1u);
  EXPECT_EQ(manager.groups().at(0).settings, (Settings{.percent = 30}));
  EXPECT_EQ(manager.groups().at(0).holders.size(), 1u);
  EXPECT_TRUE(manager.acquire(tenant_of(other, {.percent = 60})));
}

TEST_F(MpsKeeper, AToolThatFailsStartsNothingAndIsNamed) {
  const struct {
    const char* manners;
    const char* said;
  } kCases[] = {{"refuse", "told to refuse"},
                {"hang", "did not answer within 200 ms"},
                {"deaf", "no daemon answers"},
                {"nonsense", "and the daemon has"},
                {"flood", "did not answer within 200 ms"}};
  const Sleeper tenant;
  for (const auto& one : kCases) {
    keeper_.reset();
    start(one.manners, {.start = milliseconds(200),
                        .ready = milliseconds(100),
                        .quit = milliseconds(100),
                        .answer = milliseconds(200)});
    const auto refused = acquire(tenant);
    ASSERT_FALSE(refused) << one.manners;
    EXPECT_NE(refused.error().message.find(one.said), std::string::npos) << refused.error().message;
    EXPECT_TRUE(keeper_->groups().empty()) << one.manners;
    EXPECT_EQ(folder_.running_daemon(), 0u) << one.manners;
  }
}

TEST_F(MpsKeeper, NonsenseOfARunningToolIsReportedOnceAndChangesNothing) {
  write_tool(kSoundTool);
  start("550");
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient client(pipe());
  const std::uint32_t daemon = folder_.running_daemon();
  write_tool("echo 'what?'; echo 4711 x");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.failed"); }));
  EXPECT_NE(folder_.told("mps.failed")[0].find("what?"), std::string::npos) << folder_.told("mps.failed")[0];
  write_tool(kSoundTool);
  EXPECT_EQ(folder_.running_daemon(), daemon);
  folder_.demand("fault");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.fault"); })) << "it goes on being watched";
  EXPECT_EQ(folder_.told("mps.failed").size(), 1u);
}

TEST_F(MpsKeeper, AToolThatFloodsWhileItRunsIsReplacedOnceItIsSoundAgain) {
  write_tool(kSoundTool);
  start("550", {.start = milliseconds(100), .quit = milliseconds(100), .answer = milliseconds(200)});
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t daemon = folder_.running_daemon();
  write_tool("exec yes 1");
  ASSERT_TRUE(comes_true([&] { return is_told("mps.wedged") && is_told("mps.failed"); }));
  write_tool(kSoundTool);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_NE(folder_.running_daemon(), 0u);
  EXPECT_NE(folder_.running_daemon(), daemon);
}

TEST_F(MpsKeeper, AToolThatGoesAwayIsReportedOnceAndTheControlDaemonEndsAllTheSame) {
  write_tool(kSoundTool);
  start("550");
  Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::uint32_t daemon = folder_.running_daemon();
  std::filesystem::remove(tool_);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.failed"); }));
  EXPECT_EQ(folder_.running_daemon(), daemon);
  const Sleeper other;
  EXPECT_TRUE(acquire(other)) << "it only counts";
  EXPECT_EQ(folder_.told("mps.failed").size(), 1u) << folder_.told("mps.failed")[0];
  keeper_.reset();
  tenant.end();
  auto options = folder_.options(tool_);
  Manager next(std::move(options));
  ASSERT_TRUE(next.adopt());
  next.release(other.mark());
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_EQ(folder_.told("mps.stopped").size(), 1u);
}

TEST_F(MpsKeeper, AGroupThatCannotBeStartedAgainIsReportedOnceAndTriedOn) {
  write_tool(kSoundTool);
  start();
  const Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const std::string calls = tool_ + ".calls";
  write_tool("[ $# -gt 0 ] && echo >>" + calls + " && exit 3; " + std::string(kSoundTool));
  folder_.demand("death");
  ASSERT_TRUE(comes_true([&] {
    std::error_code none;
    return std::filesystem::file_size(calls, none) >= 5 && !none;
  })) << "each look tries";
  EXPECT_EQ(folder_.told("mps.died").size(), 1u);
  // A look may also have asked the daemon just before it died.
  EXPECT_EQ(
      std::ranges::count_if(folder_.told("mps.failed"), [](const auto& text) { return text.contains("MPS start"); }),
      1);
  EXPECT_EQ(keeper_->groups().at(0).restarts, 0u);
  write_tool(kSoundTool);
  ASSERT_TRUE(comes_true([&] { return is_told("mps.restarted"); }));
  EXPECT_TRUE(comes_true([&] { return keeper_->groups().at(0).restarts == 1; }));
}

TEST_F(MpsKeeper, EachSpellOfFailedRestartsIsReported) {
  write_tool(kSoundTool);
  Manager manager(folder_.options(tool_));
  std::vector<std::unique_ptr<Sleeper>> tenants;
  for (const std::size_t spell : {1u, 2u}) {
    tenants.push_back(std::make_unique<Sleeper>());
    ASSERT_TRUE(manager.acquire(tenant_of(*tenants.back())))
        << "it starts a control daemon that could not be restarted";
    ASSERT_TRUE(kill_daemon(*daemon_at(pipe(), "/proc"), ItsServers::kill, "/proc"));
    write_tool("exit 3");
    manager.look();
    manager.look();
    EXPECT_EQ(folder_.told("mps.failed").size(), spell);
    write_tool(kSoundTool);
  }
}

TEST_F(MpsKeeper, AControlDaemonThatDoesNotQuitIsKilledAfterItsLastTenant) {
  start("", {.quit = milliseconds(100)}, std::chrono::hours(1));
  Sleeper tenant;
  ASSERT_TRUE(acquire(tenant));
  const FakeClient stays(pipe());  // quit waits for it
  tenant.end();
  ASSERT_TRUE(comes_true([&] { return is_told("mps.stopped"); }));
  EXPECT_NE(folder_.told("mps.stopped")[0].find("did not quit in time and was killed"), std::string::npos);
  EXPECT_EQ(folder_.running_daemon(), 0u);
  EXPECT_TRUE(comes_true([&] { return load_book(folder_.file())->empty(); }));
}

TEST_F(MpsKeeper, GroupsAreShownWhileTheToolWorks) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<bool> held = false, is_in = false;
  step_ = [&] {
    if (held) is_in = true, gone.wait();
  };
  start();
  const Sleeper one, other;
  ASSERT_TRUE(acquire(one));
  held = true;
  std::promise<bool> acquired;
  keeper_->acquire(tenant_of(other), [&](const auto& variables) { acquired.set_value(variables.has_value()); });
  EXPECT_TRUE(comes_true([&] { return is_in.load(); }));
  EXPECT_EQ(keeper_->groups().size(), 1u);
  EXPECT_EQ(keeper_->take_off(1, milliseconds(1)).error().code, ErrorCode::busy);
  held = false;
  go.set_value();
  EXPECT_TRUE(acquired.get_future().get());
}

TEST_F(MpsKeeper, TheFortyNinthClientIsRefused) {
  start();
  std::vector<std::unique_ptr<Sleeper>> tenants;
  for (std::size_t i = 0; i < kMaxClients; ++i) {
    tenants.push_back(std::make_unique<Sleeper>());
    ASSERT_TRUE(acquire(*tenants.back())) << i;
  }
  const Sleeper more;
  EXPECT_EQ(acquire(more).error().code, ErrorCode::no_capacity);
  tenants.pop_back();
  ASSERT_TRUE(comes_true([&] { return keeper_->groups().at(0).holders.size() == kMaxClients - 1; }));
  EXPECT_TRUE(acquire(more));
}

TEST_F(MpsKeeper, ANoteThatCannotBeWrittenStartsNothing) {
  start();
  const Sleeper tenant;
  std::filesystem::create_directory(folder_.file() + ".new");
  std::filesystem::create_directory(folder_.file() + ".new/in the way");
  const auto refused = acquire(tenant);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("MPS setup"), std::string::npos) << refused.error().message;
  EXPECT_EQ(folder_.running_daemon(), 0u);
  std::filesystem::remove_all(folder_.file() + ".new");
  EXPECT_TRUE(acquire(tenant));
}

}  // namespace
}  // namespace headgate::mps
