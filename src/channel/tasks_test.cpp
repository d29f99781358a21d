#include "channel/tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace headgate::channel {
namespace {

using namespace std::chrono_literals;

Submission job(std::string client = "sched", Time ttl = 100s) { return {std::move(client), "admit", "{}", ttl}; }

TEST(Tasks, GoOutOldestFirstAndComeBackWithAnAnswer) {
  Tasks tasks;
  const TaskId first = *tasks.submit(job(), 0s);
  const TaskId second = *tasks.submit(job(), 0s);
  EXPECT_FALSE(tasks.lease("other", 0s));
  EXPECT_EQ(tasks.lease("sched", 1s)->id, first);
  EXPECT_EQ(tasks.lease("sched", 1s)->id, second);
  EXPECT_FALSE(tasks.lease("sched", 1s)) << "one task was given to two holders";
  EXPECT_EQ(tasks.acknowledge("sched", first, 1, 2s), Time(98s) / 3);
  EXPECT_TRUE(tasks.settle("sched", first, 1, true, "{\"allow\":true}", 3s));
  EXPECT_TRUE(tasks.settle("sched", second, 1, false, "no idea", 3s));
  const auto settled = tasks.take_settled();
  ASSERT_EQ(settled.size(), 2U);
  EXPECT_EQ(settled[0].state, State::done);
  EXPECT_EQ(settled[0].result, "{\"allow\":true}");
  EXPECT_EQ(settled[1].state, State::failed);
  EXPECT_TRUE(tasks.take_settled().empty());
}

TEST(Tasks, DoNotWaitMoreThanATurnForAnotherLane) {
  Tasks tasks;
  const auto submit = [&](const std::string& lane) {
    Submission submission = job();
    submission.lane = lane;
    return *tasks.submit(submission, 0s);
  };
  for (int i = 0; i < 50; ++i) submit("many");
  const TaskId first = submit("few"), second = submit("few"), other = submit("other");
  std::vector<TaskId> out;
  while (const auto task = tasks.lease("sched", 0s)) out.push_back(task->id);
  ASSERT_EQ(out.size(), 53U);
  const auto turn = [&](TaskId id) { return std::ranges::find(out, id) - out.begin(); };
  EXPECT_LT(turn(first), 3);
  EXPECT_LT(turn(other), 3);
  EXPECT_LT(turn(second), 6);
  EXPECT_TRUE(tasks.disconnect("sched", first, 1, 0s));
  submit("few");
  EXPECT_EQ(tasks.lease("sched", 0s)->id, first) << "within a lane the oldest goes first";
}

TEST(Tasks, MoveOnFromADeadHolderUntilAbandoned) {
  Tasks tasks;
  const TaskId id = *tasks.submit(job(), 0s);
  ASSERT_TRUE(tasks.lease("sched", 0s));
  EXPECT_FALSE(tasks.lease("sched", 10s - 1ns));
  EXPECT_EQ(tasks.lease("sched", 10s)->attempt, 2U) << "an unacknowledged task was lost";
  EXPECT_TRUE(tasks.acknowledge("sched", id, 2, 13s));
  EXPECT_FALSE(tasks.lease("sched", 42s - 1ns));
  EXPECT_EQ(tasks.lease("sched", 42s)->attempt, 3U) << "an acknowledged task was lost";
  tasks.advance(52s);
  EXPECT_EQ(tasks.find(id)->state, State::abandoned);
  EXPECT_EQ(tasks.take_settled().size(), 1U);
}

TEST(Tasks, AcceptAnswersOnlyFromThePresentHolder) {
  Tasks tasks;
  const TaskId id = *tasks.submit(job(), 0s);
  EXPECT_EQ(tasks.acknowledge("sched", id, 0, 0s).error(), Refusal::stale) << "no client holds the task";
  ASSERT_TRUE(tasks.lease("sched", 0s));
  EXPECT_EQ(tasks.acknowledge("other", id, 1, 0s).error(), Refusal::unknown) << "another client took a task";
  EXPECT_EQ(tasks.settle("sched", id + 1, 1, true, "", 0s).error(), Refusal::unknown);
  EXPECT_EQ(tasks.settle("sched", id, 1, true, "", 10s).error(), Refusal::stale) << "the lease was over";
  ASSERT_TRUE(tasks.lease("sched", 10s));
  EXPECT_EQ(tasks.settle("sched", id, 1, true, "", 11s).error(), Refusal::stale);
  EXPECT_TRUE(tasks.settle("sched", id, 2, true, "first", 11s));
  EXPECT_TRUE(tasks.settle("sched", id, 2, true, "first", 11s)) << "an answer whose echo was lost";
  EXPECT_EQ(tasks.settle("sched", id, 2, true, "second", 11s).error(), Refusal::settled) << "passed for the first";
  EXPECT_EQ(tasks.settle("sched", id, 2, false, "first", 11s).error(), Refusal::settled);
  EXPECT_EQ(tasks.find(id)->result, "first");
  EXPECT_EQ(tasks.settle("sched", id, 1, true, "", 11s).error(), Refusal::settled);
  EXPECT_EQ(tasks.acknowledge("sched", id, 2, 11s).error(), Refusal::settled);
}

TEST(Tasks, ExpireUnderAnyHolderAndCanBeCancelled) {
  Tasks tasks;
  const TaskId waiting = *tasks.submit(job("a", 5s), 0s);
  const TaskId held = *tasks.submit(job("b", 5s), 0s);
  const TaskId cancelled = *tasks.submit(job("c", 5s), 0s);
  EXPECT_EQ(tasks.lease("b", 0s)->lease_ends, Time(5s) / 3) << "a lease that leaves the next agent no time";
  EXPECT_EQ(tasks.acknowledge("b", held, 1, 1s), Time(4s) / 3);
  EXPECT_EQ(tasks.lease("b", 4s)->lease_ends, Time(4500ms)) << "half of what is left in the last seconds";
  EXPECT_EQ(tasks.lease("b", 4500ms)->lease_ends, Time(5s)) << "the last attempt has all";
  ASSERT_TRUE(tasks.lease("c", 0s + 1s));
  EXPECT_TRUE(tasks.cancel(cancelled, 1s));
  EXPECT_FALSE(tasks.cancel(cancelled, 1s));
  EXPECT_EQ(tasks.settle("c", cancelled, 1, true, "", 1s).error(), Refusal::settled);
  EXPECT_EQ(tasks.next_deadline(), Time(5s));
  EXPECT_EQ(tasks.settle("b", held, 3, true, "", 5s).error(), Refusal::settled);
  EXPECT_EQ(tasks.find(waiting)->state, State::expired);
  EXPECT_EQ(tasks.find(held)->state, State::expired);
}

// A typical admission: 30 s to decide, and an agent that acknowledges and dies.
TEST(Tasks, KeepTimeForTheNextAgentAfterADeadOne) {
  Tasks tasks;
  const TaskId id = *tasks.submit(job("sched", 30s), 0s);
  ASSERT_TRUE(tasks.lease("sched", 0s));
  EXPECT_EQ(tasks.acknowledge("sched", id, 1, 0s), Time(10s));
  EXPECT_EQ(tasks.lease("sched", 10s)->attempt, 2U);
  EXPECT_TRUE(tasks.settle("sched", id, 2, true, "{\"allow\":true}", 11s));
}

TEST(Tasks, StayWithAnAgentThatRenewsUntilTheEnd) {
  Tasks tasks;
  const TaskId id = *tasks.submit(job("sched", 30s), 0s);
  ASSERT_TRUE(tasks.lease("sched", 0s));
  Time now{};
  for (int acknowledged = 0; now < 29s; ++acknowledged) {
    const auto granted = tasks.acknowledge("sched", id, 1, now);
    ASSERT_TRUE(granted) << "at " << now.count();
    EXPECT_LE(*granted, std::max((30s - now) / 3, Time(1s)));
    EXPECT_LT(acknowledged, 30) << "agents are made to acknowledge without end";
    now += *granted / 2;
  }
  EXPECT_TRUE(tasks.settle("sched", id, 1, true, "1", now));
}

TEST(Tasks, MoveOnFromAnEndedStreamUnlessRenewed) {
  Tasks tasks;
  const TaskId unseen = *tasks.submit(job(), 0s);
  const TaskId left = *tasks.submit(job(), 0s);
  const TaskId kept = *tasks.submit(job(), 0s);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(tasks.lease("sched", 0s));
  for (const TaskId id : {left, kept}) ASSERT_TRUE(tasks.acknowledge("sched", id, 1, 0s));
  for (const TaskId id : {unseen, left, kept}) EXPECT_TRUE(tasks.disconnect("sched", id, 1, 1s));
  EXPECT_EQ(tasks.lease("sched", 1s)->id, unseen);
  EXPECT_TRUE(tasks.acknowledge("sched", kept, 1, 2s)) << "its agent is back";
  EXPECT_FALSE(tasks.lease("sched", 3s - 1ns));
  EXPECT_EQ(tasks.lease("sched", 3s)->id, left);
  EXPECT_FALSE(tasks.lease("sched", 3s));
  EXPECT_TRUE(tasks.settle("sched", kept, 1, true, "1", 20s));
  EXPECT_EQ(tasks.disconnect("sched", left, 1, 20s).error(), Refusal::stale);
}

TEST(Tasks, AreBoundedInNumberAndRememberedForAWhile) {
  Tasks tasks({.clients = 2, .open_per_client = 2, .remembered_per_client = 1});
  const TaskId first = *tasks.submit(job("a"), 0s);
  const TaskId second = *tasks.submit(job("a"), 0s);
  EXPECT_EQ(tasks.submit(job("a"), 0s).error(),
            (Error{ErrorCode::no_capacity, "client 'a' has 2 open tasks", "is its agent running?"}));
  EXPECT_TRUE(tasks.submit(job("b"), 0s));
  EXPECT_EQ(tasks.submit(job("c"), 0s).error().code, ErrorCode::no_capacity);
  EXPECT_TRUE(tasks.cancel(first, 1s));
  EXPECT_TRUE(tasks.submit(job("a"), 1s)) << "a settled task still takes a place";
  EXPECT_TRUE(tasks.cancel(second, 2s));
  EXPECT_EQ(tasks.find(first), nullptr);
  EXPECT_NE(tasks.find(second), nullptr);
  tasks.advance(1h);
  EXPECT_TRUE(tasks.clients().empty()) << "the queue of a client that is gone stays for good";
  EXPECT_FALSE(tasks.next_deadline());
}

TEST(Tasks, AreRefusedWithTheReasonIfInvalid) {
  Tasks tasks({.payload_bytes = 3, .name_bytes = 4});
  const std::string accepted = "accepted: 1 to 4 of letters, digits, '.', '_', ':' and '-'";
  const std::pair<Submission, Error> table[] = {
      {{"", "k", "", 1s}, {ErrorCode::usage, "'' is no name of a client", accepted}},
      {{"a/b", "k", "", 1s}, {ErrorCode::usage, "'a/b' is no name of a client", accepted}},
      {{"abcde", "k", "", 1s}, {ErrorCode::usage, "'abcde' is no name of a client", accepted}},
      {{"a", "k\n", "", 1s}, {ErrorCode::usage, "'k\n' is no kind of task", accepted}},
      {{"a", "k", "1234", 1s}, {ErrorCode::usage, "the payload has 4 bytes", "accepted: at most 3"}},
      {{"a", "k", "", 0s},
       {ErrorCode::usage, "the time to live is 0 ns", "accepted: more than 0, at most 86400000000000"}},
      {{"a", "k", "", 25h},
       {ErrorCode::usage, "the time to live is 90000000000000 ns", "accepted: more than 0, at most 86400000000000"}},
  };
  for (const auto& [submission, error] : table) EXPECT_EQ(tasks.submit(submission, 0s).error(), error);
  EXPECT_TRUE(tasks.clients().empty());
}

}  // namespace
}  // namespace headgate::channel
