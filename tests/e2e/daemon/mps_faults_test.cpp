// How the keeper reacts when a server has a fault or hangs, and when a control daemon does not answer. Tests make the
// stand-in fail on demand.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "mps_keeper.hpp"

namespace headgate::mps {
namespace {

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
    manager.look();
    std::ofstream(folder.places().log + "/server.log", std::ios::app)
        << begin << "Client process 4713 encountered a fatal GPU error.\n";
    for (int looks = 0; looks < 4; ++looks) manager.look();
    ASSERT_EQ(folder.told("mps.fault").size(), 1u) << release << ": once for each server";
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

// On a busy machine a look may find a request that was answered a moment later, and the next look finds another.
TEST(MpsWedge, IsSeenInOneRequestOverTwoLooks) {
  MpsFolder folder;
  auto options = folder.options(HEADGATE_SIM_MPS_TOOL);
  options.limits.wedged = milliseconds(0);
  Manager manager(options);
  const Sleeper tenant;
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  const FakeClient client(folder.places().pipe);
  const auto servers = Tool(HEADGATE_SIM_MPS_TOOL, folder.places(), kTestUuid).servers();
  ASSERT_TRUE(servers && servers->size() == 1);
  const auto log = [&](const std::string& text) {
    std::ofstream(folder.places().log + "/server.log", std::ios::app)
        << "[2026-11-27 10:00:00.000 Server " << servers->front() << "] " << text << "\n";
  };
  manager.look();
  for (int request = 0; request < 3; ++request) {
    log("Worker created");
    log("Received new client request");
    manager.look();
    EXPECT_TRUE(manager.is_unsettled({kTestUuid, 0}));
    EXPECT_TRUE(folder.told("mps.wedged").empty()) << "each look sees another request";
  }
  manager.look();
  EXPECT_EQ(folder.told("mps.wedged").size(), 1u);
  EXPECT_EQ(manager.groups().at(0).state, ServerState::wedged);
  manager.look();
  EXPECT_EQ(folder.told("mps.wedged").size(), 1u);
  log("Worker created");
  manager.look();
  EXPECT_NE(manager.groups().at(0).state, ServerState::wedged);
  EXPECT_EQ(manager.groups().at(0).restarts, 0u);
}

// The look saw only the ended client; meanwhile the server has let it go and serves another.
TEST_F(MpsKeeper, AServerThatHangsIsAskedAgainBeforeItIsKilled) {
  Sleeper ended;
  const std::string dead = std::to_string(ended.mark().pid);
  ended.end();
  write_tool(kSoundTool);
  auto options = folder_.options(tool_);
  options.limits.wedged = milliseconds(0);
  Manager manager(options);
  const Sleeper tenant;
  ASSERT_TRUE(manager.acquire(tenant_of(tenant)));
  const FakeClient client(pipe());
  ASSERT_TRUE(comes_true([&] {
    manager.look();
    return manager.groups().at(0).clients == std::vector{client.pid()};
  }));
  write_tool("[ -e \"$0.past\" ] && rm \"$0.past\" && { \"$0.sound\" \"$@\" | sed 's/^" + std::to_string(client.pid()) +
             "$/" + dead + "/'; exit; }\n" + kSoundTool);
  std::filesystem::create_symlink(HEADGATE_SIM_MPS_TOOL, tool_ + ".sound");
  for (int looks = 0; looks < 2; ++looks) {
    std::ofstream(tool_ + ".past") << "";
    manager.look();
  }
  ASSERT_EQ(folder_.told("mps.wedged").size(), 1u);
  EXPECT_NE(folder_.told("mps.wedged")[0].find("still lists client " + dead), std::string::npos);
  EXPECT_EQ(manager.groups().at(0).clients, std::vector{client.pid()});
  EXPECT_EQ(manager.groups().at(0).restarts, 0u);
  manager.look();
  EXPECT_NE(manager.groups().at(0).state, ServerState::wedged);
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

}  // namespace
}  // namespace headgate::mps
