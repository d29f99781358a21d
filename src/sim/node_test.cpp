#include "sim/node.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "sim/message.hpp"
#include "sim/node_file.hpp"
#include "sim/truth.hpp"

namespace headgate::sim {
namespace {

class NodeDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "headgate-node-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

// Returns an inconsistency in a state between two steps; empty if there is none.
std::string unsound(const State& state) {
  std::map<std::uint32_t, std::uint64_t> bytes, contexts_of_device, contexts_of_account;
  for (const Account& account : state.accounts) {
    if (account.used == 1 && !state.processes[account.process].used) return "an account of no process lives";
    if (account.used == 1) bytes[account.device] += account.bytes + account.context_bytes;
    if (account.used == 2 && account.bytes + account.context_bytes != 0) return "the dead hold bytes";
  }
  for (std::uint32_t c = 0; c < kMaxContexts; ++c) {
    const Context& context = state.contexts[c];
    if (!context.used) continue;
    if (c >= state.context_limit) return "a context lies beyond the limit";
    ++contexts_of_device[context.device];
    ++contexts_of_account[context.account];
    std::uint32_t resident = 0, sms = 0, spinning = 0, streams = 0, previous = kNone;
    for (std::uint32_t s = context.first_stream; s != kNone; s = state.links[s].next) {
      const Stream& stream = state.streams[s];
      if (stream.kind == StreamKind::unused || stream.context != c) return "a stream is in a foreign list";
      if (state.links[s].previous != previous) return "a list of streams is torn";
      previous = s;
      ++streams;
      if (stream.phase == Phase::kernel) ++resident, sms += stream.sms, spinning += stream.end_ns == kNever;
      if (stream.phase == Phase::copy && state.devices[context.device].copying[stream.engine] != s)
        return "a copy has no engine";
    }
    if (streams != context.stream_count || resident != context.resident || sms != context.sms_used ||
        spinning != context.spinning) {
      return message("context ", c, " counts wrong");
    }
  }
  for (std::uint32_t d = 0; d < state.device_count; ++d) {
    const Device& device = state.devices[d];
    if (device.bytes != bytes[d])
      return message("device ", d, " holds ", device.bytes, " bytes, its processes ", bytes[d]);
    if (device.contexts != contexts_of_device[d]) return "a device counts contexts wrong";
    if (device.active != kNone && !state.contexts[device.active].used) return "a dead context has the device";
    if (device.switching_to != kNone && !state.contexts[device.switching_to].used)
      return "a dead context is switched to";
    for (const std::uint32_t s : device.copying) {
      if (s != kNone && state.streams[s].phase != Phase::copy) return "an engine copies for a stream that has no copy";
    }
  }
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    if (state.accounts[a].used == 1 && state.accounts[a].contexts != contexts_of_account[a])
      return "an account counts contexts wrong";
  }
  return {};
}

// A client's whole life, with every kind of step. It advances node time by kLeadNs per round: a node more than a second
// ahead counts as one from an earlier boot and would be replaced.
constexpr std::uint64_t kLeadNs = 500'000;

int live(const std::string& directory, std::uint64_t kill_step) {
  auto node = Node::open(directory);
  if (!node) return 2;
  kill_at_step(kill_step);
  if (!(*node)->attach()) return 3;
  const std::uint32_t process = (*node)->process();
  std::uint64_t order = 0;
  for (int round = 0; round < 2; ++round) {
    Node::Locked locked(**node);
    locked.advance();
    const std::uint32_t context = locked->create_context(process, 0);
    if (context == kNone) return 4;
    const std::uint32_t account = (*node)->state().contexts[context].account;
    if (!locked->reserve_context_bytes(account, 4096) || !locked->reserve(account, 12345)) return 5;
    const std::uint32_t a = locked->create_stream(context, StreamKind::blocking);
    const std::uint32_t b = locked->create_stream(context, StreamKind::non_blocking);
    const std::uint32_t event = locked->create_event(process, 0);
    const std::uint32_t flag = locked->flag(kNone, 9);
    State& state = (*node)->state();
    const std::uint64_t now = locked->now_ns();
    const auto add = [&](std::uint32_t stream, Command command) {
      command.order = ++order;
      command.submit_ns = now;
      return push(state, stream, command) != 0;
    };
    Command kernel, copy, spin, set;
    kernel.amount = 30'000;
    copy.kind = CommandKind::copy_to_device;
    copy.amount = 1 << 20;
    spin.wait_flag = flag;
    set.set_flag = flag;
    add(a, kernel), add(a, event_record(state, event, a, now)), add(b, event_wait(state, event, now));
    add(b, copy), add(b, spin), add(a, set), add(a, kernel);
    locked->advance(now + 20'000);
    locked->advance(now + kLeadNs / 2);
    if (locked->completed(a) != 4 || locked->completed(b) != 3) return 6;
    add(a, kernel);
    locked->destroy_stream(a);
    locked->destroy_event(event);
    locked->advance(now + kLeadNs);
    locked->write_flag(flag, 0);
    locked->release(account, 345);
    if (round == 1) {
      locked->release_context_bytes(account, 4096);
      locked->destroy_context(context);
    }
  }
  (*node)->detach();
  return 0;
}

TEST_F(NodeDirectory, AKillAtAnyStepOfAClientLeavesNothing) {
  ASSERT_TRUE(create_node(directory_, *find_profile("h200")));
  auto observer = Node::open_existing(directory_);
  ASSERT_TRUE(observer);
  // If the node were replaced, the observer would watch one that is no longer used.
  const auto made = [&] {
    struct stat node{};
    return ::stat((directory_ + "/node").c_str(), &node) == 0 ? node.st_ino : 0;
  };
  const ino_t observed = made();
  int killed = 0;
  for (std::uint64_t step = 1;; ++step) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(live(directory_, step));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0) << "at step " << step;
      break;
    }
    ASSERT_EQ(WTERMSIG(status), SIGKILL) << "at step " << step;
    ASSERT_EQ(made(), observed) << "at step " << step;
    ++killed;
    (*observer)->reap();
    Node::Locked locked(**observer);
    const State& state = (*observer)->state();
    ASSERT_EQ(unsound(state), "") << "after a kill at step " << step;
    for (const Process& process : state.processes) ASSERT_EQ(process.used, 0u) << "after a kill at step " << step;
    ASSERT_EQ(state.devices[0].bytes, 0u);
  }
  EXPECT_GT(killed, 100);
  const auto truth = read_truth(directory_);
  ASSERT_TRUE(truth) << truth.error().message;
  EXPECT_EQ(truth->devices[0].used_bytes, 0u);
}

TEST_F(NodeDirectory, AProcessStoppedInACallBlocksNoOther) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << "skipped: only /proc tells which processes are stopped";
  ASSERT_TRUE(create_node(directory_, *find_profile("h200")));
  const pid_t child = ::fork();
  if (child == 0) {
    auto node = Node::open_existing(directory_);
    if (!node || !(*node)->attach()) ::_exit(1);
    {
      const Node::Locked locked(**node);
      ::raise(SIGSTOP);
    }
    for (;;) ::pause();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  {
    const Node::Locked locked(**node);
  }
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

TEST_F(NodeDirectory, BytesOfAKilledProcessAreFreeForTheNext) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto node = Node::open(directory_);
    if (!node || !(*node)->attach()) ::_exit(1);
    {
      Node::Locked locked(**node);
      const std::uint32_t account = locked->account((*node)->process(), 0);
      if (!locked->reserve(account, locked->free_bytes(0))) ::_exit(2);
    }
    if (::write(ready[1], "x", 1) != 1) ::_exit(3);
    while (true) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto before = read_truth(directory_);
  ASSERT_TRUE(before);
  ASSERT_EQ(before->devices[0].processes.size(), 1u);
  EXPECT_TRUE(before->devices[0].processes[0].alive);
  EXPECT_EQ(before->devices[0].processes[0].pid, child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  auto after = read_truth(directory_);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->devices[0].used_bytes, 0u);
  ASSERT_EQ(after->devices[0].processes.size(), 1u);
  EXPECT_FALSE(after->devices[0].processes[0].alive);
  EXPECT_EQ(after->devices[0].processes[0].peak_bytes, before->devices[0].processes[0].bytes);
  ASSERT_TRUE(reset_truth(directory_));
  EXPECT_TRUE(read_truth(directory_)->devices[0].processes.empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(NodeDirectory, AProcessThatReadsTheTruthOfItsNodeSurvives) {
  auto node = Node::open(directory_);
  ASSERT_TRUE(node);
  ASSERT_TRUE((*node)->attach());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(read_truth(directory_));
  auto other = Node::open_existing(directory_);
  ASSERT_TRUE(other);
  const pid_t child = ::fork();
  if (child == 0) {
    (*other)->reap();
    ::_exit((*other)->state().processes[(*node)->process()].used ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(NodeDirectory, NoNodeOrAnotherVersionIsRefusedByName) {
  std::ofstream(directory_ + "/node") << "not a node at all, but longer than three words";
  auto opened = Node::open(directory_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(directory_ + "/node is not a simulated node"), std::string::npos);
  std::filesystem::remove(directory_ + "/node");
  ASSERT_TRUE(create_node(directory_, *find_profile("tiny")));
  std::fstream file(directory_ + "/node", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  const std::uint32_t newer = kNodeVersion + 1;
  file.write(reinterpret_cast<const char*>(&newer), sizeof newer);
  file.close();
  opened = Node::open(directory_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(message("layout ", newer)), std::string::npos) << opened.error().message;
}

TEST_F(NodeDirectory, ANodeKeepsItsProfileAndAnotherIsRefused) {
  ASSERT_TRUE(create_node(directory_, *find_profile("tiny")));
  EXPECT_TRUE(create_node(directory_, *find_profile("tiny")));
  const auto other = create_node(directory_, *find_profile("h200"));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("profile tiny, not h200"), std::string::npos);
  EXPECT_TRUE(recreate_node(directory_, *find_profile("h200")));
  EXPECT_EQ(read_truth(directory_)->profile, "h200");
}

TEST_F(NodeDirectory, TwoDirectoriesShowDifferentGpusThatNeverChange) {
  const Profile& tiny = *find_profile("tiny");
  const auto uuid = [](const std::string& directory) { return read_truth(directory)->devices.at(0).uuid; };
  const std::string a = directory_ + "/a", b = directory_ + "/b", c = directory_ + "/c";
  ASSERT_TRUE(create_node(a, tiny));
  ASSERT_TRUE(create_node(b, tiny));
  EXPECT_NE(uuid(a), uuid(b)) << "a share's processes on one would be listed on the other";
  const std::string before = uuid(a);
  ASSERT_TRUE(create_node(a, tiny));
  EXPECT_EQ(uuid(a), before);
  ASSERT_TRUE(recreate_node(a, tiny));
  EXPECT_EQ(uuid(a), before);
  ASSERT_TRUE(recreate_node(a, *find_profile("h200")));
  EXPECT_NE(uuid(a), before) << "another model is another card";
  Profile seeded = tiny;
  seeded.node_seed = 77;
  ASSERT_TRUE(create_node(c, seeded));
  EXPECT_EQ(uuid(c), uuid_text(seeded, 0).data());
  seeded.node_seed = 78;
  EXPECT_FALSE(create_node(c, seeded));
}

TEST_F(NodeDirectory, ADirectoryWithoutRoomIsAnErrorWithoutAHalfNode) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1 << 16, 1 << 16};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const auto made = create_node(directory_, *find_profile("h200"));
    ::_exit(!made && !std::filesystem::exists(directory_ + "/node") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Truth, IsRefusedWithoutANode) {
  const auto truth = read_truth("/nonexistent/headgate");
  ASSERT_FALSE(truth);
  EXPECT_EQ(truth.error().code, ErrorCode::unreachable);
}

}  // namespace
}  // namespace headgate::sim
