// Virtual memory management as frameworks use it, with cases that other limiters miscounted, refused or crashed on.
#include "limiter_sharing.hpp"

namespace headgate::e2e {
namespace {

std::string limit_of(std::uint64_t bytes) { return std::to_string(bytes) + "B"; }

// vgpu.rs charged the current context's GPU instead of the memory's GPU.
TEST_F(Sharing, MemoryIsChargedOnItsGpuNotTheCurrentOne) {
  sim::Profile two = *sim::find_profile("h200");
  two.count = 2;
  ASSERT_TRUE(sim::create_node(node(), two));
  Puppet& maker = puppet();
  ASSERT_EQ(maker.tell("create 1 3 1"), 0u);
  EXPECT_EQ(account("shared", 1).used, 3 * kChunk);
  EXPECT_EQ(account("shared", 0).used, 0u);
  EXPECT_EQ(truth(1), 3 * kChunk);
  ASSERT_EQ(maker.tell("export 1"), 0u);
  ::close(maker.receive());
  ASSERT_EQ(maker.tell("release 1"), 0u);
  EXPECT_EQ(account("shared", 1).used, 0u);
}

// Without a current context vgpu.rs checked nothing at all.
TEST_F(Sharing, MemoryIsChargedWithoutAContextToo) {
  Puppet& maker = puppet("20MiB", "shared", {"bare"});
  EXPECT_EQ(maker.tell("create 1 10"), 0u);
  EXPECT_EQ(account().used, 10 * kChunk);
  EXPECT_EQ(maker.tell("create 2 1"), 2u);
  EXPECT_EQ(maker.tell("release 1"), 0u);
  EXPECT_EQ(account().used, 0u);
}

// PyTorch's expandable segments: grow until refused, release some, grow again by exactly that.
TEST_F(Sharing, AnExpandableSegmentGrowsToTheLimit) {
  const std::uint64_t context = sim::find_profile("h200")->context_bytes;
  for (const char* chunks : {"1", "10"}) {
    Puppet& grower = puppet(limit_of(context + 41 * kChunk), "grow" + std::string(chunks));
    const std::uint64_t fit = 41 / std::stoul(chunks);
    EXPECT_EQ(grower.tell(std::string("segment 0 ") + chunks), fit) << "whole chunks below the limit";
    EXPECT_EQ(account(("grow" + std::string(chunks)).c_str()).used, 0u) << "all given back";
    grower.leave();
  }
}

// vLLM's sleep: the addresses stay reserved, the memory is released, and later mapped at the same addresses.
TEST_F(Sharing, ASleepingServerHoldsNoMemory) {
  Puppet& server = puppet();
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_EQ(server.tell("create " + std::string(name) + " 4"), 0u);
    ASSERT_EQ(server.tell("map " + std::string(name)), 0u);
  }
  EXPECT_EQ(account().used, 12 * kChunk);
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_EQ(server.tell("sleep " + std::string(name)), 0u);
  }
  EXPECT_EQ(account().used, 0u);
  EXPECT_EQ(truth(), 0u);
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_EQ(server.tell("wake " + std::string(name)), 0u);
  }
  EXPECT_EQ(account().used, 12 * kChunk);
  EXPECT_EQ(truth(), 12 * kChunk);
}

// NCCL: every rank exports its buffer and all others map it; at the end all release in any order.
TEST_F(Sharing, RanksThatMapPeersBuffersPayForTheirOwn) {
  constexpr int kRanks = 4;
  std::vector<Puppet*> ranks;
  for (int i = 0; i < kRanks; ++i) ranks.push_back(&puppet());
  for (int i = 0; i < kRanks; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_EQ(ranks[i]->tell("create " + name + " 2"), 0u);
    ASSERT_EQ(ranks[i]->tell("map " + name), 0u);
    ASSERT_EQ(ranks[i]->tell("export " + name), 0u);
    const int fd = ranks[i]->receive();
    for (int other = 0; other < kRanks; ++other) {
      if (other == i) continue;
      ranks[other]->send(fd);
      ASSERT_EQ(ranks[other]->tell("import " + name + " 2"), 0u);
      ASSERT_EQ(ranks[other]->tell("map " + name), 0u);
      ASSERT_EQ(ranks[other]->tell("release " + name), 0u);
    }
    ::close(fd);
  }
  EXPECT_EQ(account().used, 2 * kRanks * kChunk);
  EXPECT_EQ(truth(), 2 * kRanks * kChunk);
  for (int i = 0; i < kRanks; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_EQ(ranks[i]->tell("unmap " + name), 0u);
    ASSERT_EQ(ranks[i]->tell("release " + name), 0u);
  }
  EXPECT_EQ(account().used, 2 * kRanks * kChunk) << "the others have them mapped";
  for (int i = 0; i < kRanks; ++i) {
    for (int other = 0; other < kRanks; ++other) {
      if (other == i) continue;
      ASSERT_EQ(ranks[other]->tell("unmap " + std::to_string(i)), 0u);
    }
  }
  EXPECT_EQ(truth(), 0u);
  for (Puppet* rank : ranks) ASSERT_EQ(rank->tell("info"), 0u);
  EXPECT_EQ(account().used, 0u);
}

// HAMi-core returned -1 for arguments that it did not know.
TEST_F(Sharing, BadInputGetsTheDriversAnswerAndNoCharge) {
  for (const bool limited : {true, false}) {
    Puppet& clumsy = puppet("16GiB", limited ? "shared" : "");
    EXPECT_EQ(clumsy.tell("bad"), 0u) << "the number of the first wrong answer";
    if (limited) {
      EXPECT_EQ(account().used, 0u);
    }
  }
}

}  // namespace
}  // namespace headgate::e2e
