#include "node/admission_queue.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

using tenancy::kGiB;
using tenancy::kGpu0;
using tenancy::kGpu1;
using tenancy::Share;
using tenancy::share_of;

// A node of two cards, what is committed on it, and the events of the waiting requests.
struct Node {
  std::vector<tenancy::Card> cards = {{kGpu0, 80 * kGiB}, {kGpu1, 80 * kGiB}};
  std::vector<Share> committed;
  Queue queue;
  std::vector<std::string> heard;

  [[nodiscard]] Queue::Books books() const { return {cards, {}, tenancy::committed_of({cards, committed, {}, {}})}; }
  std::uint64_t wait(const Share& share) {
    const auto ticket = queue.enter(
        share, 0,
        {.moved = [this, name = share.name](std::size_t place,
                                            const auto&) { heard.push_back(name + " " + std::to_string(place)); },
         .settled =
             [this, name = share.name](const Result<void>& end) {
               heard.push_back(name + (end ? " in" : " out: " + end.error().message));
             }});
    EXPECT_TRUE(ticket) << ticket.error().message;
    return ticket.value_or(0);
  }
  // Serves the queue; returns the events since.
  std::vector<std::string> serve() {
    heard.clear();
    queue.serve(books(), [this](const Share& share) -> Result<void> {
      if (auto good = tenancy::admit(share, {cards, committed, {}, {}}); !good) return good;
      committed.push_back(share);
      return {};
    });
    return heard;
  }
  void end(const std::string& name) {
    std::erase_if(committed, [&](const Share& share) { return share.name == name; });
  }
};
using Heard = std::vector<std::string>;

TEST(Queue, LaterSmallRequestsDoNotStarveALargeOne) {
  Node node;
  node.committed = {share_of("a", 1, 40 * kGiB), share_of("b", 1, 30 * kGiB)};
  node.wait(share_of("large", 1, 60 * kGiB));
  node.wait(share_of("small", 2, 2 * kGiB));
  node.wait(share_of("next", 3, 2 * kGiB));
  EXPECT_EQ(node.serve(), (Heard{"large 1", "small 2", "next 3"})) << "2 GiB are free, and large waits for them";
  EXPECT_EQ(node.serve(), Heard{}) << "nothing has changed";
  node.end("b");
  EXPECT_EQ(node.serve(), Heard{"large 1"}) << "it lacks less, is told so, and is first still";
  EXPECT_EQ(node.queue.list().size(), 3u);
  node.end("a");
  EXPECT_EQ(node.serve(), (Heard{"large in", "small in", "next in"}));
  EXPECT_TRUE(node.queue.list().empty());
}

TEST(Queue, ARequestThatTakesNothingFromEarlierOnesGoesFirst) {
  Node node;
  node.committed = {share_of("a", 1, 10 * kGiB, 900'000)};
  node.wait(share_of("time", 1, kGiB, 500'000));
  node.wait(share_of("elsewhere", 1, kGiB, 500'000, kGpu1));
  node.wait(share_of("memory", 1, kGiB));
  node.wait(share_of("more-time", 1, kGiB, 50'000));
  EXPECT_EQ(node.serve(), (Heard{"time 1", "elsewhere in", "memory in", "more-time 2"}));
  EXPECT_TRUE(node.queue.list().back().reason.starts_with("behind number 1")) << node.queue.list().back().reason;
  EXPECT_EQ(node.queue.overtaken_by(share_of("x", 1, kGiB, 10'000), node.books())->share.name, "time");
  EXPECT_EQ(node.queue.overtaken_by(share_of("x", 1, kGiB), node.books()), nullptr);
}

TEST(Queue, GrantedRoomIsTakenWhenTheNextIsConsidered) {
  Node node;
  node.committed = {share_of("a", 1, 70 * kGiB)};
  node.wait(share_of("first", 1, 30 * kGiB));
  node.wait(share_of("large", 2, 60 * kGiB));
  node.wait(share_of("small", 3, 15 * kGiB));
  EXPECT_EQ(node.serve(), (Heard{"first 1", "large 2", "small 3"}));
  node.end("a");
  EXPECT_EQ(node.serve(), (Heard{"first in", "large 1", "small 2"})) << "or the large one would wait for two";
}

TEST(Queue, ARequestThatLeavesFreesItsPlace) {
  Node node;
  node.committed = {share_of("a", 1, 70 * kGiB)};
  const auto first = node.wait(share_of("first", 1, 60 * kGiB));
  node.wait(share_of("second", 1, 5 * kGiB));
  EXPECT_EQ(node.serve(), (Heard{"first 1", "second 2"}));
  EXPECT_TRUE(node.queue.leave(first));
  EXPECT_FALSE(node.queue.leave(first));
  EXPECT_EQ(node.serve(), Heard{"second in"});
}

TEST(Queue, ARequestRefusedForAnotherReasonBlocksNoOther) {
  Node node;
  node.wait(share_of("refused", 1, kGiB));
  node.wait(share_of("other", 1, kGiB));
  node.queue.serve(node.books(), [](const Share& share) -> Result<void> {
    if (share.name == "refused") return fail(ErrorCode::denied, "over a quota");
    return {};
  });
  EXPECT_EQ(node.heard, (Heard{"refused out: over a quota", "other in"}));
}

TEST(Queue, ABusyDatabaseCostsNoRequestItsPlace) {
  Node node;
  node.wait(share_of("first", 1, kGiB));
  node.wait(share_of("second", 2, kGiB));
  int asked = 0;
  node.queue.serve(node.books(), [&](const Share&) -> Result<void> {
    ++asked;
    return fail(ErrorCode::busy, "the database is locked");
  });
  EXPECT_EQ(asked, 1) << "each that is tried waits for the store";
  EXPECT_EQ(node.queue.list().size(), 2u);
  EXPECT_EQ(node.serve(), (Heard{"first in", "second in"}));
}

TEST(Queue, ARequestForAShareMadeMeanwhileEnds) {
  Node node;
  node.committed = {share_of("a", 1, 70 * kGiB)};
  node.wait(share_of("job", 7, 60 * kGiB));
  node.wait(share_of("job", 7, 60 * kGiB));
  node.wait(share_of("other", 8, 11 * kGiB));
  EXPECT_EQ(node.serve(), (Heard{"job 1", "job 2", "other 3"}));
  node.end("a");
  EXPECT_EQ(node.serve(), (Heard{"job in", "job out: an earlier request for the share 'job' has made it", "other in"}));
}

TEST(Queue, ARequestAfterAnAbandonedOneHasItsOwnPlace) {
  Node node;
  node.committed = {share_of("a", 1, 70 * kGiB)};
  const auto first = node.wait(share_of("job", 7, 60 * kGiB));
  node.wait(share_of("job", 7, 60 * kGiB));
  EXPECT_EQ(node.serve(), (Heard{"job 1", "job 2"}));
  EXPECT_TRUE(node.queue.leave(first));
  node.end("a");
  EXPECT_EQ(node.serve(), Heard{"job in"});
}

TEST(Queue, HasALimitForAllUsers) {
  Node node;
  node.committed = {share_of("a", 1, 79 * kGiB)};
  for (std::uint32_t i = 0; i < Queue::kMost; ++i) node.wait(share_of("w" + std::to_string(i), 7 + i, 50 * kGiB));
  EXPECT_EQ(node.queue.enter(share_of("more", 6, kGiB), 0, {}).error().code, ErrorCode::no_capacity);
}

TEST(Queue, IsNotFilledByOneUser) {
  Node node;
  node.committed = {share_of("a", 1, 79 * kGiB)};
  for (std::size_t i = 0; i < Queue::kMaxOfAUser; ++i) node.wait(share_of("w" + std::to_string(i), 7, 50 * kGiB));
  const auto more = node.queue.enter(share_of("more", 7, kGiB), 0, {});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::no_capacity);
  EXPECT_TRUE(node.queue.enter(share_of("more", 8, kGiB), 0, {}));
  EXPECT_EQ(node.queue.enter(share_of("more", 9, kGiB), 0, {}).error().code, ErrorCode::conflict)
      << "the name is taken";
}

}  // namespace
}  // namespace headgate::node
