#include "api/scheduler.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "channel/channel.hpp"
#include "http/loop.hpp"

namespace headgate::api {
namespace {

using namespace std::chrono_literals;

// A channel with the scheduler's questions, and an agent that polls it. All on this thread.
class SchedulerTest : public ::testing::Test {
 protected:
  void open(const tenancy::ConnectionBounds& doors) {
    channel_.emplace(loop_,
                     channel::ChannelOptions{.limits = Scheduler::limits(doors),
                                             .authorise = [](const auto&, const auto&) { return Result<void>(); }});
    scheduler_.emplace(*channel_, events_, 60s);
    channel_->add_routes(router_);
  }
  static tenancy::Share share(const std::string& name, std::uint32_t owner) {
    tenancy::Share share;
    share.name = name;
    share.owner_uid = owner;
    return share;
  }
  // A process of that user asks to enter the user's share.
  void ask(std::uint32_t uid, std::uint32_t pid) {
    const tenancy::Share of = share("s" + std::to_string(uid), uid);
    const tenancy::TenantProcess tenant{
        .share = of.name, .process = {.pid = pid}, .uid = uid, .where = {}, .seat = {}, .slot = {}};
    scheduler_->admit(of, tenant, [this, pid](Result<void> decision) { decided_.emplace(pid, std::move(decision)); });
  }
  void want_memory(const std::string& name) {
    scheduler_->tell_of_want({.share = name, .uuid = "GPU-0"}, share(name, 7), 60s, [this] { ++memory_denied_; });
  }
  // Calls the route as the server would.
  http::Response call(const std::string& method, std::vector<std::string> path, http::Fields query,
                      const std::string& body) {
    http::Request request;
    request.method = method;
    request.segments = {"v1", "channel", Scheduler::kClient, "tasks"};
    std::ranges::move(path, std::back_inserter(request.segments));
    request.query = std::move(query);
    request.body = body;
    request.peer = {.is_unix = true, .uid = ::geteuid()};
    const auto found = router_.find(request);
    const auto* const route = std::get_if<const http::Router::Route*>(&found);
    if (route == nullptr) return std::get<http::Response>(found);
    const auto slot = std::make_shared<http::Reply::Slot>([] {});
    (*route)->handler(request, http::Reply(slot));
    return slot->take().value_or(http::Response{});
  }
  // Takes the next question; null if there is none.
  nlohmann::json next() {
    const auto all = nlohmann::json::parse(call("GET", {}, {}, "").body, nullptr, false);
    return all.is_object() && !all["tasks"].empty() ? all["tasks"][0] : nlohmann::json();
  }
  void answer(const nlohmann::json& task, const std::string& words, int status = 200) {
    const auto taken = call("POST", {std::to_string(task["id"].get<std::uint64_t>()), "result"},
                            {{"attempt", std::to_string(task["attempt"].get<int>())}}, words);
    EXPECT_EQ(taken.status, status) << taken.body;
  }

  http::Loop loop_;
  observe::EventLog events_;
  http::Router router_;
  std::optional<channel::Channel> channel_;
  std::optional<Scheduler> scheduler_;
  std::map<std::uint32_t, Result<void>> decided_;
  int memory_denied_ = 0;
};

constexpr std::uint32_t kMany = 1000, kOne = 1001;

TEST_F(SchedulerTest, OneUsersProcessesDoNotBlockQueriesOfOthers) {
  const tenancy::ConnectionBounds doors;
  open(doors);
  const auto most = static_cast<std::uint32_t>(doors.waiting_of_a_user);
  for (std::uint32_t pid = 1; pid <= most; ++pid) ask(kMany, pid);
  ask(kOne, most + 1);
  want_memory("t");
  EXPECT_TRUE(decided_.empty()) << decided_.begin()->second.error().message;
  std::set<std::string> of;
  for (int turn = 0; turn < 3; ++turn) {
    const auto task = next();
    of.insert(task["kind"] == "memory" ? "memory" : std::to_string(task["payload"]["uid"].get<std::uint32_t>()));
    if (task["kind"] == "memory") answer(task, R"({"allow":false})");
    else if (task["payload"]["uid"] == kOne) answer(task, R"({"allow":true})");
  }
  EXPECT_EQ(of, (std::set<std::string>{"1000", "1001", "memory"})) << "each has its turn";
  ASSERT_TRUE(decided_.contains(most + 1));
  EXPECT_TRUE(decided_.at(most + 1));
  EXPECT_EQ(memory_denied_, 1);
}

TEST_F(SchedulerTest, QueriesHaveRoomForAllThatMayWait) {
  tenancy::ConnectionBounds doors;
  doors.waiting = 300;
  open(doors);
  for (std::uint32_t pid = 1; pid <= doors.waiting; ++pid) ask(pid, pid);
  for (std::size_t n = 0; n < tenancy::kMaxShares; ++n) want_memory("t" + std::to_string(n));
  EXPECT_TRUE(decided_.empty());
  ask(kOne, 9999);
  ASSERT_TRUE(decided_.contains(9999)) << "more than can be, and they are not kept waiting";
  EXPECT_EQ(decided_.at(9999).error().code, ErrorCode::no_capacity) << "which is no denial";
}

TEST_F(SchedulerTest, AShareThatLacksMemoryHasOneQueryAtATime) {
  open({});
  for (int look = 0; look < 3; ++look) want_memory("t");
  const auto first = next();
  ASSERT_EQ(first["kind"], "memory");
  EXPECT_TRUE(next().is_null()) << "one share, one question";
  answer(first, R"({"allow":true})");
  EXPECT_EQ(memory_denied_, 0);
  want_memory("t");
  const auto second = next();
  ASSERT_EQ(second["kind"], "memory");
  answer(second, R"({"allow":false})");
  EXPECT_EQ(memory_denied_, 1);
}

TEST_F(SchedulerTest, QueriesOfARemovedShareDoNotReachItsSuccessor) {
  open({});
  want_memory("t");
  const auto first = next();
  ASSERT_EQ(first["kind"], "memory");
  scheduler_->forget("t");
  want_memory("t");
  const auto second = next();
  ASSERT_EQ(second["kind"], "memory") << "the next one's lack is told";
  answer(first, R"({"allow":false})", 410);
  EXPECT_EQ(memory_denied_, 0);
  want_memory("t");
  EXPECT_TRUE(next().is_null()) << "nor does the end of the first end the second's question";
  answer(second, R"({"allow":false})");
  EXPECT_EQ(memory_denied_, 1);
}

TEST_F(SchedulerTest, ADenialCarriesTheSchedulersReason) {
  open({});
  ask(kOne, 7);
  answer(next(), R"({"allow":false,"reason":"full until noon"})");
  ASSERT_TRUE(decided_.contains(7));
  EXPECT_EQ(decided_.at(7).error().code, ErrorCode::denied);
  EXPECT_EQ(decided_.at(7).error().message, "the scheduler said no: full until noon");
}

// Cutting by bytes would break characters and lose the advice after the cut.
TEST_F(SchedulerTest, AReasonInAnyScriptArrivesAndIsHarmless) {
  open({});
  const std::string long_one(157, 'x'), japanese = "\\u6e80\\u54e1\\u3067\\u3059 \\u2013 Gr\\u00f6\\u00dfe";
  const std::pair<std::string, std::string> cases[] = {{japanese, "満員です – Größe"},
                                                       {long_one + "call", long_one + "cal..."},
                                                       {long_one + "\\u6e80\\u54e1", long_one + "満..."},
                                                       {"a\\u001b[2J\\u009b2J\\u202eb", "a?[2J?2J?b"}};
  std::uint32_t pid = 10;
  for (const auto& [reason, heard] : cases) {
    ask(kOne, ++pid);
    answer(next(), R"({"allow":false,"reason":")" + reason + "\"}");
    ASSERT_TRUE(decided_.contains(pid));
    EXPECT_EQ(decided_.at(pid).error().message, "the scheduler said no: " + heard);
  }
}

}  // namespace
}  // namespace headgate::api
