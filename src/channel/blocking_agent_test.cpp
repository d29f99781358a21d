// The agent against a real channel: over a Unix socket, over servers that go and come back, and over one that is
// killed.
#include "channel/test_agent.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>

#include "channel/channel.hpp"
#include "http/test_server.hpp"

namespace headgate::channel {
namespace {

using namespace std::chrono_literals;
using http::eventually;

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "headgate-channel.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// Server and channel on a path; destroying and recreating it is a restart.
class Life {
 public:
  explicit Life(const std::string& path, ChannelOptions options = {}) {
    options.authorise = [](const auto&, const auto&) { return Result<void>(); };
    thread_.on_loop([&] {
      channel_.emplace(thread_.loop(), std::move(options));
      serve(path);
    });
  }
  ~Life() {
    thread_.on_loop([&] {
      server_.reset();
      channel_.reset();
    });
  }
  TaskId submit(std::string payload, Time ttl = 600s) {
    return thread_.on_loop([&] {
      const auto id = channel_->submit({"sched", "admit", std::move(payload), ttl}, [this](const Task& task) {
        const std::lock_guard lock(mutex_);
        results_.push_back(std::string(word(task.state)) + " " + task.result);
      });
      return id.value_or(0);
    });
  }
  void cancel(TaskId id) {
    thread_.on_loop([&] { (void)channel_->cancel(id); });
  }
  std::vector<std::string> results() {
    const std::lock_guard lock(mutex_);
    return results_;
  }

 private:
  void serve(const std::string& path) {
    http::Router router;
    channel_->add_routes(router);
    server_.emplace(thread_.loop(), std::move(router));
    const auto listening = server_->listen(http::UnixListener{.path = path});
    EXPECT_TRUE(listening) << listening.error().message;
  }
  std::mutex mutex_;
  std::vector<std::string> results_;
  std::optional<Channel> channel_;
  std::optional<http::Server> server_;
  http::LoopThread thread_;
};

AgentOptions options_for(const std::string& path) {
  return {.server = {.path = path}, .client = "sched", .backoff = {1ms, 50ms}};
}

TEST(BlockingAgent, PullsRenewsAndAnswers) {
  const Folder folder;
  Life life(folder.path + "/s");
  BlockingAgent agent(options_for(folder.path + "/s"));
  const auto nothing = agent.pull(10ms);
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_FALSE(*nothing);
  life.submit("{\"share\":\"a\"}");
  const auto task = agent.pull(20s);
  ASSERT_TRUE(task && *task);
  EXPECT_EQ((*task)->payload, "{\"share\":\"a\"}");
  EXPECT_GT((*task)->lease, 50s) << "not acknowledged";
  EXPECT_TRUE(agent.keep(**task));
  EXPECT_TRUE(agent.answer(**task, true, "{\"allow\":false}"));
  EXPECT_TRUE(eventually([&] { return !life.results().empty(); }));
  EXPECT_EQ(life.results(), std::vector<std::string>{"done {\"allow\":false}"});
  const TaskId second = life.submit("1");
  const auto lost = agent.pull(20s);
  ASSERT_TRUE(lost && *lost);
  life.cancel(second);
  EXPECT_EQ(agent.answer(**lost, true, "1").error().code, ErrorCode::usage) << "the server's no is final";
}

TEST(BlockingAgent, WaitsForALateServerWithinATimeout) {
  const Folder folder;
  const std::string path = folder.path + "/s";
  BlockingAgent agent(options_for(path));
  EXPECT_EQ(agent.pull(50ms).error().code, ErrorCode::unreachable);
  auto pulled = std::async(std::launch::async, [&] { return BlockingAgent(options_for(path)).pull(30s); });
  Life life(path);
  life.submit("7");
  const auto task = pulled.get();
  ASSERT_TRUE(task && *task);
  EXPECT_EQ((*task)->payload, "7");
}

TEST(BlockingAgent, AgentsShareTheWorkAndNeverEachOthersTask) {
  const Folder folder;
  Life life(folder.path + "/s");
  std::mutex mutex;
  std::multiset<std::string> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      BlockingAgent agent(options_for(folder.path + "/s"));
      for (;;) {
        const auto task = agent.pull(60s);
        if (!task || !*task || (*task)->payload == "\"stop\"") {
          if (task && *task) {
            EXPECT_TRUE(agent.answer(**task, true, "0"));
          }
          return;
        }
        EXPECT_TRUE(agent.answer(**task, true, (*task)->payload));
        const std::lock_guard lock(mutex);
        seen.insert((*task)->payload);
      }
    });
  }
  std::multiset<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    ASSERT_NE(life.submit(std::to_string(i)), 0U);
    expected.insert(std::to_string(i));
  }
  for (std::size_t i = 0; i < threads.size(); ++i) life.submit("\"stop\"");
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen, expected);
}

// channel_test_server as a separate process: it submits tasks continuously and writes a line for each answer.
class ServerProcess {
 public:
  explicit ServerProcess(const std::string& path) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    output_ = UniqueFd(ends[0]);
    const UniqueFd input(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
    const std::string program = CHANNEL_TEST_SERVER;
    char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(path.c_str()), nullptr};
    if (::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ) != 0) std::abort();
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~ServerProcess() { kill(); }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  std::string line() {
    std::string text;
    char c = 0;
    while (::read(output_.get(), &c, 1) == 1 && c != '\n') text += c;
    return text;
  }

 private:
  pid_t process_ = -1;
  UniqueFd output_;
};

TEST(BlockingAgent, ContinuesWithAServerThatIsKilledRepeatedly) {
  const Folder folder;
  const std::string path = folder.path + "/s";
  std::atomic<bool> stop = false;
  std::thread blocking([&] {
    BlockingAgent agent(options_for(path));
    while (!stop) {
      const auto task = agent.pull(1s);
      if (task && *task) (void)agent.answer(**task, true, (*task)->payload);
    }
  });
  for (int life = 0; life < 5; ++life) {
    ServerProcess server(path);
    for (int answers = 0; answers < 10; ++answers) {
      const std::string line = server.line();
      EXPECT_TRUE(line.starts_with("done ")) << line;
      const auto equals = line.find('=');
      EXPECT_EQ(line.substr(5, equals - 5), line.substr(equals + 1)) << "the answer to another question";
    }
    server.kill();
  }
  // The agent retries its answer while the task is live, so without a server it would not end sooner.
  const ServerProcess last(path);
  stop = true;
  blocking.join();
}

}  // namespace
}  // namespace headgate::channel
