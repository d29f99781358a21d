#include "node/gpu_board.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace headgate::node {
namespace {

constexpr std::int64_t kMs = 1'000'000, kNow = 20'000 * kMs;

struct Share {
  std::uint64_t generation;
  std::unique_ptr<ledger::GpuPage> page = std::make_unique<ledger::GpuPage>();
  std::vector<ledger::Seat> seats{};

  void work(const ledger::GpuPage& board, std::uint64_t owner, std::int64_t from_ns, std::int64_t to_ns) {
    seats.push_back({.page = page.get(), .board = &board, .owner = owner, .share = generation});
    ledger::mark_seat(seats.back(), {from_ns, to_ns, from_ns, true}, to_ns);
  }
};

struct Boards {
  std::unique_ptr<ledger::GpuPage> page = std::make_unique<ledger::GpuPage>();
  GpuBoard board{*page};

  std::size_t places_of(std::uint64_t share) const {
    std::size_t places = 0;
    for (const ledger::GpuSeat& seat : page->seats) places += seat.owner.load() != 0 && seat.share.load() == share;
    return places;
  }
};

TEST(GpuBoard, AReaderIsCreditedWithWorkOnOtherPages) {
  Boards all;
  Share one{.generation = 11}, other{.generation = 12};
  // The other's kernel of 2 ms lies within what the first one measured.
  one.work(*all.page, 1, kNow - 20 * kMs, kNow - 14 * kMs);
  other.work(*all.page, 1, kNow - 18 * kMs, kNow - 16 * kMs);
  const auto account = std::make_unique<ledger::ComputeAccount>();
  all.board.bring(*one.page, 11, kNow);
  all.board.bring(*other.page, 12, kNow);
  EXPECT_EQ(ledger::neighbours_ns(one.seats[0], *account, kNow), 0);  // told() has not confirmed that this is all
  all.board.told(kNow);
  const std::int64_t theirs_ns = ledger::neighbours_ns(one.seats[0], *account, kNow);
  EXPECT_NEAR(static_cast<double>(theirs_ns), 2e6, 1e5);
  EXPECT_EQ(ledger::neighbours_ns(one.seats[0], *account, kNow), 0);
}

TEST(GpuBoard, ReplaysStopAtTheLastConfirmedTime) {
  Boards all;
  Share one{.generation = 11}, other{.generation = 12};
  one.work(*all.page, 1, kNow - 20 * kMs, kNow - 14 * kMs);
  other.work(*all.page, 1, kNow - 18 * kMs, kNow - 16 * kMs);
  all.board.bring(*one.page, 11, kNow);
  all.board.bring(*other.page, 12, kNow);
  all.board.told(kNow - 15 * kMs);
  const auto account = std::make_unique<ledger::ComputeAccount>();
  EXPECT_EQ(ledger::neighbours_ns(one.seats[0], *account, kNow), 0);
}

TEST(GpuBoard, AContextThatLeavesFreesItsPlace) {
  Boards all;
  Share one{.generation = 11};
  one.work(*all.page, 1, kNow - 2 * kMs, kNow);
  all.board.bring(*one.page, 11, kNow);
  EXPECT_EQ(all.places_of(11), 1u);
  ledger::leave_seat(one.seats[0]);
  one.work(*all.page, 2, kNow - 1 * kMs, kNow);
  all.board.bring(*one.page, 11, kNow);
  EXPECT_EQ(all.places_of(11), 1u);
  EXPECT_EQ(all.page->seats[0].owner.load(), 2u);
  all.board.bring(*one.page, 11, kNow + ledger::kSeatIdleNs);  // it has been still for so long
  EXPECT_EQ(all.places_of(11), 0u);
  // Another share's place shows nothing of the share that was there before.
  Share other{.generation = 12};
  other.work(*all.page, 1, kNow - kMs / 2, kNow);
  all.board.bring(*other.page, 12, kNow);
  EXPECT_EQ(all.page->seats[0].share.load(), 12u);
  EXPECT_EQ(all.page->marks[0].working.word((kNow - 2 * kMs) / 48'000 + 1), 0u);
  all.board.forget(12);
  EXPECT_EQ(all.places_of(12), 0u);
}

// Of many shares that take turns, most have marked nothing since they were last copied.
TEST(GpuBoard, AContextWithoutNewMarksIsNotCopiedAgain) {
  Boards all;
  Share one{.generation = 11};
  one.work(*all.page, 1, kNow - kMs, kNow);
  const auto copied = [&](std::int64_t at_ns, std::int64_t of_ns) {
    one.page->marks[0].working.mark(of_ns - kMs / 2, of_ns);
    all.board.bring(*one.page, 11, at_ns);
    all.board.told(at_ns);
    return all.page->marks[0].working.word((of_ns - kMs / 4) / ledger::kCoverageWordNs) != 0;
  };
  EXPECT_TRUE(copied(kNow, kNow));
  EXPECT_TRUE(copied(kNow + 2 * kMarkingNs, kNow + kMs)) << "a limiter may have gone on marking";
  EXPECT_FALSE(copied(kNow + 3 * kMarkingNs, kNow + 2 * kMs)) << "but not for as long";
  one.work(*all.page, 1, kNow + 2 * kMs, kNow + 3 * kMarkingNs);
  EXPECT_TRUE(copied(kNow + 4 * kMarkingNs, kNow + 2 * kMs));
}

TEST(GpuBoard, APlacesOldMarksDoNotCountForItsNextContext) {
  Boards all;
  Share one{.generation = 11}, other{.generation = 12};
  const std::int64_t then = kNow - kBoardReachNs - 10 * kMs;  // longer ago than is copied
  one.work(*all.page, 1, then - 2 * kMs, then);
  all.board.bring(*one.page, 11, then);
  EXPECT_NE(all.page->marks[0].working.word((then - kMs) / ledger::kCoverageWordNs), 0u);
  all.board.forget(11);
  other.work(*all.page, 1, kNow - kMs, kNow);
  all.board.bring(*other.page, 12, kNow);
  EXPECT_EQ(all.page->seats[0].share.load(), 12u);
  EXPECT_EQ(all.page->marks[0].working.word((then - kMs) / ledger::kCoverageWordNs), 0u);
}

TEST(GpuBoard, AShareWithManyContextsLeavesRoomForOthers) {
  Boards all;
  Share flood{.generation = 11};
  for (std::uint64_t i = 1; i <= ledger::kMaxSeats; ++i) flood.work(*all.page, i, kNow - kMs, kNow);
  all.board.bring(*flood.page, 11, kNow);
  EXPECT_EQ(all.places_of(11), ledger::kMaxSeats);
  Share other{.generation = 12};
  for (std::uint64_t i = 1; i <= 8; ++i) other.work(*all.page, i, kNow - kMs, kNow);
  for (int round = 0; round < 3; ++round) {
    all.board.bring(*flood.page, 11, kNow);
    all.board.bring(*other.page, 12, kNow);
    EXPECT_EQ(all.places_of(12), 8u);
    EXPECT_EQ(all.places_of(11), ledger::kMaxSeats - 8);
  }
}

TEST(GpuBoard, EverNewContextsAreCopiedUpToTheLimit) {
  Boards all;
  const auto page = std::make_unique<ledger::GpuPage>();
  ledger::see_seat(*page, ledger::kMaxSeats - 1);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (ledger::GpuSeat& seat : page->seats) {
      seat.owner.store(round);
      seat.seen_ns.store(kNow);
    }
    EXPECT_EQ(all.board.bring(*page, 11, kNow, 2), 2);
    EXPECT_EQ(all.places_of(11), 2u) << round;
  }
}

TEST(GpuBoard, AContextSeenAtAnImpossibleTimeIsNotAtWork) {
  constexpr auto kEver = std::numeric_limits<std::int64_t>::min(), kNever = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t seen_ns : {kEver, kNever}) {
    Boards all;
    Share liar{.generation = 11};
    liar.work(*all.page, 1, kNow - kMs, kNow);
    liar.page->seen_ns.store(seen_ns);
    EXPECT_FALSE(GpuBoard::works(*liar.page, kNow, ledger::kSeatIdleNs)) << seen_ns;
    liar.page->seats[0].seen_ns.store(seen_ns);
    all.board.bring(*liar.page, 11, kNow);
    EXPECT_EQ(all.places_of(11), seen_ns == kEver ? 0u : 1u) << "what lies ahead counts as now";
  }
}

TEST(GpuBoard, ATenantsWritesDoNotChangeOthersMarks) {
  Boards all;
  Share honest{.generation = 12};
  honest.work(*all.page, 1, kNow - 18 * kMs, kNow - 16 * kMs);
  const auto page = std::make_unique<ledger::GpuPage>();
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    auto* words = reinterpret_cast<std::uint64_t*>(page.get());
    for (std::size_t i = 0; i < sizeof(ledger::GpuPage) / 8; ++i) words[i] = random();
    if (random() % 2 == 0) page->seen_ns.store(kNow);
    for (ledger::GpuSeat& seat : page->seats)
      if (random() % 2 == 0) seat.seen_ns.store(kNow);
    all.board.bring(*page, 11, kNow);
    all.board.bring(*honest.page, 12, kNow);
    ASSERT_EQ(all.places_of(12), 1u) << round;
    for (std::size_t i = 0; i < ledger::kMaxSeats; ++i) {
      // The board decides which share a seat is of, not the tenant.
      const std::uint64_t share = all.page->seats[i].share.load();
      ASSERT_TRUE(share == 0 || share == 11 || share == 12) << share;
      if (all.page->seats[i].owner.load() == 0 || share != 12) continue;
      for (std::int64_t word = (kNow - 25 * kMs) / 48'000; word < kNow / 48'000; ++word)
        ASSERT_EQ(all.page->marks[i].working.word(word), honest.page->marks[0].working.word(word));
    }
  }
}

}  // namespace
}  // namespace headgate::node
