#include "channel/channel.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "channel/ask.hpp"
#include "http/test_server.hpp"

namespace headgate::channel {
namespace {

using namespace std::chrono_literals;
using http::eventually;

// A channel behind a server, and how its tasks ended.
class ChannelTest : public testing::Test {
 protected:
  void start(ChannelOptions options = {}) {
    if (!options.authorise) options.authorise = [](const auto&, const auto&) { return Result<void>(); };
    server_.emplace(std::function<http::Router(http::Loop&)>([&](http::Loop& loop) {
      channel_.emplace(loop, std::move(options));
      http::Router router;
      channel_->add_routes(router);
      return router;
    }));
  }
  template <typename Work>
  auto on_loop(Work work) {
    return server_->thread().on_loop(std::move(work));
  }
  void TearDown() override {
    if (server_) on_loop([&] { channel_.reset(); });
  }
  TaskId submit(std::string payload, Time ttl = 600s, std::string client = "sched") {
    return on_loop([&] {
      const auto id = channel_->submit({std::move(client), "admit", std::move(payload), ttl}, [this](const Task& task) {
        const std::lock_guard lock(mutex_);
        settled_.push_back(task);
        changed_.notify_all();
      });
      EXPECT_TRUE(id) << id.error().message;
      return id.value_or(0);
    });
  }
  Task wait_for(TaskId id) {
    std::unique_lock lock(mutex_);
    const auto is_it = [&](const Task& task) { return task.id == id; };
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return std::ranges::any_of(settled_, is_it); }))
        << "the submitter was not told how task " << id << " ended";
    const auto found = std::ranges::find_if(settled_, is_it);
    return found == settled_.end() ? Task() : *found;
  }
  std::size_t listeners() {
    return on_loop([&] { return channel_->listeners("sched"); });
  }
  std::string get(const std::string& target) {
    const auto response = http::exchange(server_->unix_endpoint(), {.target = target}, 20s);
    return response ? std::to_string(response->status) + " " + response->body : response.error().message;
  }
  std::string post(const std::string& target, std::string body = {}) {
    const auto response =
        http::exchange(server_->unix_endpoint(), {.method = "POST", .target = target, .body = std::move(body)}, 20s);
    return response ? std::to_string(response->status) + " " + response->body : response.error().message;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> settled_;
  std::optional<Channel> channel_;
  std::optional<http::TestServer> server_;
};

TEST_F(ChannelTest, APollingSchedulerCanAllowAndDeny) {
  start();
  auto asked = std::async(std::launch::async, [&] { return get("/v1/channel/sched/tasks?wait=20s"); });
  ASSERT_TRUE(eventually([&] { return listeners() == 1; }));
  const TaskId id = submit(R"({"share":"a"})");
  const std::string task = asked.get();
  const std::string path = "/v1/channel/sched/tasks/" + std::to_string(id);
  EXPECT_TRUE(task.starts_with("200 {\"tasks\":[{\"id\":" + std::to_string(id) + ",\"attempt\":1,\"kind\":\"admit\","))
      << task;
  EXPECT_TRUE(task.contains("\"payload\":{\"share\":\"a\"}")) << task;
  EXPECT_EQ(post(path + "/ack?attempt=1"), "200 {\"lease_ms\":60000}\n");
  EXPECT_EQ(post(path + "/result?attempt=1", R"({"allow":true})"), "200 {\"state\":\"done\"}\n");
  EXPECT_EQ(wait_for(id).result, R"({"allow":true})");
  EXPECT_EQ(post(path + "/result?attempt=1", R"({"allow":true})"), "200 {\"state\":\"done\"}\n") << "said twice";
  EXPECT_EQ(get("/v1/channel/sched/tasks"), "200 {\"tasks\":[]}\n");
}

TEST_F(ChannelTest, EachInvalidRequestHasItsAnswer) {
  start({.limits = {.payload_bytes = 100}});
  const TaskId id = submit("1");
  const std::string path = "/v1/channel/sched/tasks/" + std::to_string(id);
  EXPECT_TRUE(post(path + "/ack?attempt=1").starts_with("409 {\"code\":\"stale\""));
  EXPECT_TRUE(get("/v1/channel/sched/tasks").starts_with("200 {\"tasks\":[{"));
  const std::pair<std::string, const char*> table[] = {
      {"/v1/channel/sched/tasks/1/ack?attempt=1", "404 {\"code\":\"not_found\""},
      {"/v1/channel/other/tasks/" + std::to_string(id) + "/ack?attempt=1", "404 {\"code\":\"not_found\""},
      {path + "/ack", "400 {\"code\":\"usage\""},
      {path + "/ack?attempt=-1", "400 {\"code\":\"usage\""},
      {"/v1/channel/sched/tasks/x/ack?attempt=1", "400 {\"code\":\"usage\""},
      {path + "/result?attempt=2", "400 {\"code\":\"usage\",\"message\":\"this body is no result\""},
      {path + "/result?attempt=1&ok=maybe",
       "400 {\"code\":\"usage\",\"message\":\"a result names its task and attempt\""},
  };
  for (const auto& [target, answer] : table) EXPECT_TRUE(post(target).starts_with(answer)) << target << post(target);
  EXPECT_TRUE(post(path + "/result?attempt=1", "{").starts_with("400 "));
  EXPECT_TRUE(post(path + "/result?attempt=1&ok=false", std::string(101, 'x')).starts_with("400 "));
  EXPECT_TRUE(post(path + "/result?attempt=2", "1").starts_with("409 "));
  EXPECT_TRUE(get("/v1/channel/sched/tasks?wait=x")
                  .starts_with("400 {\"code\":\"usage\",\"message\":\"'x' is no time to wait\""));
  for (const std::string name : {"a%2Fb", "a%20b", "a%0Ab"})
    for (const char* what : {"", "/tasks"})
      EXPECT_TRUE(get("/v1/channel/" + name + what).starts_with("400 ")) << name << what;
  EXPECT_TRUE(post("/v1/channel/a%20b/tasks/1/ack?attempt=1", "").starts_with("400 "));
  EXPECT_TRUE(post("/v1/channel/a%20b/tasks/1/result?attempt=1", "1").starts_with("400 "));
  on_loop([&] { EXPECT_TRUE(channel_->cancel(id)); });
  EXPECT_EQ(wait_for(id).state, State::cancelled);
  EXPECT_TRUE(post(path + "/result?attempt=1", "1").starts_with("410 {\"code\":\"settled\""));
}

TEST_F(ChannelTest, InvalidJsonNeverReachesAnAgent) {
  start();
  on_loop([&] {
    EXPECT_EQ(channel_->submit({"sched", "admit", "{", 1s}, {}).error().message,
              "the payload of a task for 'sched' is no JSON");
    EXPECT_EQ(channel_->submit({"", "admit", "{}", 1s}, {}).error().message, "'' is no name of a client");
  });
}

TEST_F(ChannelTest, TaskStatesAreReported) {
  start();
  const TaskId id = submit("1");
  EXPECT_EQ(get("/v1/channel"), "200 {\"clients\":[\"sched\"]}\n");
  const std::string seen = get("/v1/channel/sched");
  EXPECT_TRUE(
      seen.starts_with("200 {\"client\":\"sched\",\"streams\":0,\"polls\":0,\"tasks\":[{\"id\":" + std::to_string(id) +
                       ",\"kind\":\"admit\",\"state\":\"queued\",\"attempt\":0,\"age_ms\":"))
      << seen;
}

TEST_F(ChannelTest, AnEmptyPollEndsAndALostPollerTakesNoTask) {
  start();
  EXPECT_EQ(get("/v1/channel/sched/tasks?wait=10ms"), "200 {\"tasks\":[]}\n");
  http::RawClient leaver(server_->unix_endpoint());
  leaver.send("GET /v1/channel/sched/tasks?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return listeners() == 1; }));
  leaver.close();
  EXPECT_TRUE(eventually([&] { return listeners() == 0; }));
  submit("1");
  EXPECT_TRUE(get("/v1/channel/sched/tasks").contains("\"attempt\":1")) << "the task went to the poller that had left";
}

TEST_F(ChannelTest, TasksOfABrokenStreamMoveToTheNextAgent) {
  start({.limits = {.lease = 1h}});
  const TaskId id = submit("1");
  http::RawClient first(server_->unix_endpoint());
  first.send("GET /v1/channel/sched/tasks HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  first.read([](const std::string& all) { return all.contains("\"attempt\":1"); });
  first.close();
  auto source = http::EventSource::open(server_->unix_endpoint(), {.target = "/v1/channel/sched/tasks"}, 20s);
  ASSERT_TRUE(source) << source.error().message;
  const auto event = source->next(20s);
  ASSERT_TRUE(event && *event);
  EXPECT_EQ((*event)->name, "task");
  const auto task = nlohmann::json::parse((*event)->data);
  EXPECT_EQ(task["id"], id);
  EXPECT_EQ(task["attempt"], 2U);
  on_loop([&] { channel_->cancel(id); });
  const auto cancelled = source->next(20s);
  ASSERT_TRUE(cancelled && *cancelled);
  EXPECT_EQ((*cancelled)->name, "cancel");
  EXPECT_EQ(nlohmann::json::parse((*cancelled)->data)["id"], id);
}

TEST_F(ChannelTest, ATaskAtWorkStaysLeasedAfterItsStreamBreaks) {
  start({.limits = {.lease = 1h, .reconnect = 1h}});
  const TaskId id = submit("1");
  const std::string path = "/v1/channel/sched/tasks/" + std::to_string(id);
  http::RawClient stream(server_->unix_endpoint());
  stream.send("GET /v1/channel/sched/tasks HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  stream.read([](const std::string& all) { return all.contains("\"attempt\":1"); });
  ASSERT_TRUE(post(path + "/ack?attempt=1").starts_with("200 "));
  stream.close();
  ASSERT_TRUE(eventually([&] { return listeners() == 0; }));
  EXPECT_EQ(get("/v1/channel/sched/tasks"), "200 {\"tasks\":[]}\n");
  EXPECT_EQ(post(path + "/result?attempt=1", "1"), "200 {\"state\":\"done\"}\n");
}

TEST_F(ChannelTest, ADeadAgentsTaskSoonMovesToTheNextAgent) {
  start({.limits = {.lease = 1h, .work = 1h, .reconnect = 20ms}});
  const TaskId id = submit("1", 10h);
  const std::string path = "/v1/channel/sched/tasks/" + std::to_string(id);
  http::RawClient stream(server_->unix_endpoint());
  stream.send("GET /v1/channel/sched/tasks HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  stream.read([](const std::string& all) { return all.contains("\"attempt\":1"); });
  ASSERT_TRUE(post(path + "/ack?attempt=1").starts_with("200 "));
  stream.close();
  EXPECT_TRUE(get("/v1/channel/sched/tasks?wait=20s").contains("\"attempt\":2"));
}

TEST_F(ChannelTest, AStreamThatLostATaskHasRoomForAnother) {
  start({.limits = {.attempts = 2, .lease = 20ms}, .window = 1});
  auto source = http::EventSource::open(server_->unix_endpoint(), {.target = "/v1/channel/sched/tasks"}, 20s);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(wait_for(submit("1")).state, State::abandoned) << "after the second attempt";
}

TEST_F(ChannelTest, AStreamHoldsAtMostItsWindow) {
  start({.window = 2});
  std::vector<TaskId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(submit(std::to_string(i)));
  auto source = http::EventSource::open(server_->unix_endpoint(), {.target = "/v1/channel/sched/tasks"}, 20s);
  ASSERT_TRUE(source) << source.error().message;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(nlohmann::json::parse((**source->next(20s)).data)["id"], ids[i]);
  const auto state = [&](int i) { return on_loop([&] { return channel_->find(ids[i])->state; }); };
  EXPECT_EQ(state(2), State::queued);
  EXPECT_EQ(post("/v1/channel/sched/tasks/" + std::to_string(ids[1]) + "/result?attempt=1", "1"),
            "200 {\"state\":\"done\"}\n");
  EXPECT_EQ(nlohmann::json::parse((**source->next(20s)).data)["id"], ids[2]);
  EXPECT_EQ(state(3), State::queued);
}

TEST_F(ChannelTest, SubmittersLearnOfATaskThatEndsWithoutAnAgent) {
  start({.limits = {.attempts = 1, .lease = 20ms}});
  EXPECT_EQ(wait_for(submit("1", 20ms)).state, State::expired);
  const TaskId lost = submit("2");
  EXPECT_TRUE(get("/v1/channel/sched/tasks").contains("\"attempt\":1"));
  EXPECT_EQ(wait_for(lost).state, State::abandoned);
}

TEST_F(ChannelTest, ASubmitterMaySubmitAndCancelInItsCallback) {
  start();
  std::promise<State> second;
  on_loop([&] {
    const auto first = channel_->submit({"sched", "a", "1", 60s}, [&](const Task&) {
      const auto next =
          channel_->submit({"sched", "b", "2", 60s}, [&](const Task& task) { second.set_value(task.state); });
      EXPECT_TRUE(channel_->cancel(*next));
    });
    EXPECT_TRUE(channel_->cancel(*first));
  });
  EXPECT_EQ(second.get_future().get(), State::cancelled);
}

TEST_F(ChannelTest, PermissionIsGrantedDeniedOrLeftToTheCaller) {
  start({.limits = {.attempts = 2}});
  using Verdict = Decision::Verdict;
  const auto decide = [&](const std::string& result, bool ok) {
    std::promise<Decision> decision;
    const auto asked = on_loop([&] {
      return ask(*channel_, {"sched", "admit", "{}", 600s}, [&](const Decision& made) { decision.set_value(made); });
    });
    EXPECT_TRUE(get("/v1/channel/sched/tasks").contains("\"attempt\":1"));
    (void)post("/v1/channel/sched/tasks/" + std::to_string(*asked) + "/result?attempt=1" + (ok ? "" : "&ok=false"),
               result);
    return decision.get_future().get();
  };
  EXPECT_EQ(decide(R"({"allow":true})", true), (Decision{Verdict::allow, ""}));
  EXPECT_EQ(decide(R"({"allow":false,"reason":"full until noon"})", true),
            (Decision{Verdict::deny, "full until noon"}));
  EXPECT_EQ(decide(R"({"yes":true})", true),
            (Decision{Verdict::no_answer, "the agent of 'sched' answered without saying \"allow\": true or false"}));
  EXPECT_EQ(decide("no database", false), (Decision{Verdict::no_answer, "the agent of 'sched' failed: no database"}));
  std::promise<Decision> nobody;
  on_loop([&] {
    EXPECT_TRUE(ask(*channel_, {"sched", "admit", "{}", 20ms}, [&](const Decision& made) { nobody.set_value(made); }));
  });
  EXPECT_EQ(nobody.get_future().get(), (Decision{Verdict::no_answer, "the agent of 'sched' did not come in time"}));
}

TEST_F(ChannelTest, OnlyAClientsAgentsActForIt) {
  start({.authorise = [](const http::Request&, const std::string& client) -> Result<void> {
    if (client == "sched") return {};
    return fail(ErrorCode::denied, "not for '" + client + "'");
  }});
  EXPECT_EQ(get("/v1/channel/sched/tasks"), "200 {\"tasks\":[]}\n");
  EXPECT_TRUE(get("/v1/channel/sched").starts_with("200 "));
  for (const char* target : {"/v1/channel", "/v1/channel/other", "/v1/channel/other/tasks"})
    EXPECT_TRUE(get(target).starts_with("403 ")) << target;
  EXPECT_TRUE(post("/v1/channel/other/tasks/1/ack?attempt=1").starts_with("403 "));
  EXPECT_TRUE(post("/v1/channel/other/tasks/1/result?attempt=1").starts_with("403 "));
}

TEST_F(ChannelTest, AClosedChannelEndsStreamsAndAnswersPolls) {
  start();
  auto asked = std::async(std::launch::async, [&] { return get("/v1/channel/sched/tasks?wait=30s"); });
  auto source = http::EventSource::open(server_->unix_endpoint(), {.target = "/v1/channel/sched/tasks"}, 20s);
  ASSERT_TRUE(eventually([&] { return listeners() == 2; }));
  on_loop([&] { channel_.reset(); });
  EXPECT_EQ(asked.get(), "200 {\"tasks\":[]}\n");
  const auto end = source->next(20s);
  EXPECT_TRUE(end && !*end);
  EXPECT_TRUE(get("/v1/channel/sched/tasks").starts_with("503 "));
}

}  // namespace
}  // namespace headgate::channel
