#include "observe/page_check.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <random>

#include "guest/ledger/account.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::observe {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::int64_t kSecond = 1'000'000'000;

class PageCheckTest : public ::testing::Test {
 protected:
  PageCheckTest() : policy_(new(std::nothrow) ledger::PolicyPage{}), usage_(new(std::nothrow) ledger::UsagePage{}) {
    policy_->device_count = 1;
    policy_->generation = 77;
    usage_->header = {ledger::kUsageMagic, ledger::kVersion, sizeof(ledger::UsagePage)};
    usage_->slot_count = ledger::kMaxSlots;
    usage_->device_count = 1;
    usage_->generation = 77;
    EXPECT_EQ(ledger::claim(*usage_, {10, 7, 10}, "tenant", seat_), ledger::ClaimResult::claimed);
    EXPECT_TRUE(ledger::reserve(*usage_, 0, seat_, kGiB, 8 * kGiB).ok);
  }
  std::string look() { return check_.look(*policy_, *usage_, 80 * kGiB, now_ns_ += kSecond); }

  std::unique_ptr<ledger::PolicyPage> policy_;
  std::unique_ptr<ledger::UsagePage> usage_;
  ledger::SlotRef seat_{};
  PageCheck check_;
  std::int64_t now_ns_ = 0;
};

TEST_F(PageCheckTest, AnHonestPageIsNeverAccused) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(look(), "");
    EXPECT_FALSE(ledger::reserve(*usage_, 0, seat_, 8 * kGiB, 8 * kGiB).ok);
    if (i == 5) ledger::release(*usage_, seat_);
  }
}

TEST_F(PageCheckTest, EachFalseValueIsNamed) {
  const struct {
    std::function<void(ledger::UsagePage&)> lie;
    const char* said;
  } lies[] = {
      {[](auto& page) { page.header.magic = 5; }, "does not begin with"},
      {[](auto& page) { page.header.version = 9; }, "version is 9"},
      {[](auto& page) { page.header.bytes = 12; }, "12 bytes"},
      {[](auto& page) { page.slot_count = 1; }, "1 slots"},
      {[](auto& page) { page.device_count = 7; }, "has 7 GPUs, and has 1"},
      {[](auto& page) { page.generation = 1; }, "another generation number"},
      {[](auto& page) { page.slots_seen = 4096; }, "4096 slots"},
      {[](auto& page) { page.reserved[3] = 1; }, "reserved fields"},
      {[](auto& page) { page.memory[0].reserved[3] = 1; }, "reserved fields"},
      {[](auto& page) { page.slots[0].reserved[0] = 1; }, "reserved fields"},
      {[](auto& page) { page.slots[0].life = 9; }, "unknown state, 9"},
      {[](auto& page) { std::memset(page.slots[0].command, 'x', sizeof page.slots[0].command); },
       "name is not terminated"},
      {[](auto& page) { page.slots[0].devices[0].sequence = 99; }, "two operations"},
      {[](auto& page) { page.slots[0].devices[0].residual_bytes = 1ull << 50; },
       "a slot 0 with 1125899906842624 bytes of contexts and code on a GPU of 85899345920"},
      {[](auto& page) { page.memory[0].word.used_bytes = ~0ull; }, "counts 18446744073709551615 bytes"},
  };
  for (const auto& [lie, said] : lies) {
    const auto whole = std::make_unique<std::array<char, sizeof(ledger::UsagePage)>>();
    std::memcpy(whole->data(), static_cast<void*>(usage_.get()), whole->size());
    lie(*usage_);
    EXPECT_NE(look().find(said), std::string::npos) << said << ": " << look();
    std::memcpy(static_cast<void*>(usage_.get()), whole->data(), whole->size());
    EXPECT_EQ(look(), "");
  }
}

TEST_F(PageCheckTest, ALastingDisagreementIsReported) {
  usage_->memory[0].word.used_bytes = 5;
  EXPECT_EQ(look(), "");
  EXPECT_EQ(look(), "");
  EXPECT_EQ(look(), "counts 5 bytes in use, and its processes 1073741824");
  usage_->memory[0].word.used_bytes = kGiB;
  EXPECT_EQ(look(), "");
}

// An honest operation may be under way at any look, and be seen at several looks in quick succession.
TEST_F(PageCheckTest, ABriefDisagreementIsNotReported) {
  const auto look_after = [&](std::int64_t ns) { return check_.look(*policy_, *usage_, 80 * kGiB, now_ns_ += ns); };
  const auto disagree = [&](bool does) { usage_->memory[0].word.used_bytes = does ? 5 : kGiB; };
  disagree(true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(look_after(kSecond / 100), "") << i;
  disagree(false);
  EXPECT_EQ(look_after(kSecond), "");
  disagree(true);
  EXPECT_EQ(look_after(60 * kSecond), "");
  EXPECT_EQ(look_after(60 * kSecond), "");
  disagree(false);
  EXPECT_EQ(look_after(60 * kSecond), "");
  disagree(true);
  EXPECT_EQ(look_after(60 * kSecond), "");
}

TEST_F(PageCheckTest, ContextsAndCodeAreAtMostTheCard) {
  for (std::uint32_t pid = 11; pid < 13; ++pid) {
    ledger::SlotRef slot;
    ASSERT_EQ(ledger::claim(*usage_, {pid, 7, pid}, "tenant", slot), ledger::ClaimResult::claimed);
    usage_->slots[slot.slot].devices[0].residual_bytes = 80 * kGiB;
  }
  EXPECT_EQ(look(), "");
  usage_->slots[seat_.slot].devices[0].residual_bytes = 80 * kGiB;
  EXPECT_EQ(look(), "counts 257698037760 bytes of contexts and code on a GPU of 85899345920");
}

TEST_F(PageCheckTest, AnyPageContentIsHarmlessToTheReader) {
  std::mt19937_64 random(1);
  auto* const words = reinterpret_cast<std::uint64_t*>(usage_.get());
  for (int round = 0; round < 300; ++round) {
    for (int n = 0; n < 200; ++n) words[random() % (sizeof(ledger::UsagePage) / 8)] = random() >> random() % 64;
    (void)look();
  }
}

}  // namespace
}  // namespace headgate::observe
