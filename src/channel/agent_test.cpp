// Both agents against a real channel: over a Unix socket, over servers that go and come back, and over one that is
// killed.
#include "channel/agent.hpp"

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

#include "channel/blocking_agent.hpp"
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

// Server and channel on a path; destroyed and made anew, a restart.
class Life {
 public:
  explicit Life(const std::string& path, ChannelOptions options = {}) {
    options.authorise = [](const auto&, const auto&) { return Result<void>(); };
    thread_.on_loop([&] {
      channel_.emplace(thread_.loop(), std::move(options));
      serve(path);
    });
  }
  // Ends all connections; the channel and its tasks stay.
  void cut(const std::string& path) {
    thread_.on_loop([&] {
      server_.reset();
      serve(path);
    });
  }
  // When the lease of a first attempt ends; zero where the task is in another attempt or state.
  Time lease_ends(TaskId id) {
    return thread_.on_loop([&] {
      const Task* task = channel_->find(id);
      return task->state == State::working && task->attempt == 1 ? task->lease_ends : Time::zero();
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

// An agent on a loop of its own that echoes what it is given.
class Echo {
 public:
  explicit Echo(AgentOptions options) {
    thread_.on_loop([&] {
      agent_.emplace(thread_.loop(), std::move(options),
                     Agent::Handlers{.task =
                                         [this](const Assignment& task) {
                                           ++tasks;
                                           if (!hold) agent_->answer(task.id, task.payload != "\"bad\"", task.payload);
                                         },
                                     .withdrawn = [this](TaskId) { ++withdrawn; },
                                     .connection = [this](bool now) { connected = now; }});
    });
  }
  ~Echo() {
    thread_.on_loop([&] { agent_.reset(); });
  }
  std::size_t in_hand() {
    return thread_.on_loop([&] { return agent_->in_hand(); });
  }
  void answer(TaskId id, const std::string& result) {
    thread_.on_loop([&] { agent_->answer(id, true, result); });
  }

  std::atomic<int> tasks = 0;
  std::atomic<int> withdrawn = 0;
  std::atomic<bool> connected = false;
  std::atomic<bool> hold = false;

 private:
  http::LoopThread thread_;
  std::optional<Agent> agent_;
};

TEST(Agent, answers_each_task_of_many) {
  const Folder folder;
  Life life(folder.path + "/s");
  Echo echo(options_for(folder.path + "/s"));
  std::multiset<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(life.submit(std::to_string(i)), 0U);
    expected.insert("done " + std::to_string(i));
  }
  life.submit("\"bad\"");
  expected.insert("failed \"bad\"");
  EXPECT_TRUE(eventually([&] { return life.results().size() == 101; })) << life.results().size();
  const auto results = life.results();
  EXPECT_EQ(std::multiset<std::string>(results.begin(), results.end()), expected);
  EXPECT_TRUE(eventually([&] { return echo.in_hand() == 0; }));
}

TEST(Agent, keeps_the_lease_of_a_task_that_takes_its_time) {
  const Folder folder;
  Life life(folder.path + "/s", {.limits = {.work = 1s}});
  Echo echo(options_for(folder.path + "/s"));
  echo.hold = true;
  const TaskId id = life.submit("1");
  ASSERT_TRUE(eventually([&] { return echo.tasks == 1; }));
  std::this_thread::sleep_for(2500ms);  // more than two leases
  echo.answer(id, "\"late\"");
  EXPECT_TRUE(eventually([&] { return !life.results().empty(); }));
  EXPECT_EQ(life.results(), std::vector<std::string>{"done \"late\""});
  EXPECT_EQ(echo.tasks, 1) << "the task was given out again under its holder";
}

TEST(Agent, keeps_a_task_over_a_stream_that_broke) {
  const Folder folder;
  Life life(folder.path + "/s", {.limits = {.reconnect = 20s}});
  Echo echo(options_for(folder.path + "/s"));
  echo.hold = true;
  const TaskId id = life.submit("1");
  ASSERT_TRUE(eventually([&] { return echo.tasks == 1; }));
  const Time before = life.lease_ends(id);
  life.cut(folder.path + "/s");
  EXPECT_TRUE(eventually([&] { return life.lease_ends(id) > before; })) << "not acknowledged again";
  echo.answer(id, "1");
  EXPECT_TRUE(eventually([&] { return !life.results().empty(); }));
  EXPECT_EQ(life.results(), std::vector<std::string>{"done 1"});
}

TEST(Agent, is_told_what_nobody_wants_any_more) {
  const Folder folder;
  Life life(folder.path + "/s");
  Echo echo(options_for(folder.path + "/s"));
  echo.hold = true;
  const TaskId id = life.submit("1");
  ASSERT_TRUE(eventually([&] { return echo.tasks == 1; }));
  life.cancel(id);
  EXPECT_TRUE(eventually([&] { return echo.withdrawn == 1; }));
  EXPECT_EQ(echo.in_hand(), 0U);
}

TEST(Agent, comes_back_to_a_server_that_was_away_and_answers_nothing_of_the_life_before) {
  const Folder folder;
  const std::string path = folder.path + "/s";
  Echo echo(options_for(path));
  EXPECT_FALSE(echo.connected);
  TaskId before = 0;
  {
    Life life(path, {.limits = {.work = 400ms}});
    ASSERT_TRUE(eventually([&] { return echo.connected.load(); })) << "never came when the server did";
    life.submit("1");
    ASSERT_TRUE(eventually([&] { return life.results().size() == 1; }));
    echo.hold = true;
    before = life.submit("2");
    ASSERT_TRUE(eventually([&] { return echo.tasks == 2; }));
  }
  ASSERT_TRUE(eventually([&] { return !echo.connected; }));
  Life life(path);
  ASSERT_TRUE(eventually([&] { return echo.connected.load(); }));
  const TaskId after = life.submit("3");
  EXPECT_GT(after, before) << "an answer meant for the life before would be taken";
  ASSERT_TRUE(eventually([&] { return echo.tasks == 3; }));
  EXPECT_TRUE(eventually([&] { return echo.withdrawn == 1; })) << "works for a server that forgot the task";
  echo.answer(after, "4");
  ASSERT_TRUE(eventually([&] { return life.results().size() == 1; }));
  EXPECT_EQ(life.results().front(), "done 4");
}

TEST(BlockingAgent, pulls_keeps_and_answers) {
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

TEST(BlockingAgent, waits_for_a_server_that_is_not_there_yet_but_not_for_ever) {
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

TEST(BlockingAgent, many_of_them_share_the_work_and_none_does_anothers) {
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

// channel_test_server in a process of its own: submits a task a moment and writes a line for each answer.
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

TEST(Agents, go_on_with_a_server_that_is_killed_again_and_again) {
  const Folder folder;
  const std::string path = folder.path + "/s";
  Echo echo(options_for(path));
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
  // An answer is tried for as long as somebody may want it: without a server the agent would not end sooner.
  const ServerProcess last(path);
  stop = true;
  blocking.join();
}

}  // namespace
}  // namespace headgate::channel
