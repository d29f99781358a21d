// Peers at a share's socket while it closes, or while the share changes its users.
#include <gtest/gtest.h>

#include "tenancy/test_registration.hpp"

namespace headgate::tenancy {
namespace {

constexpr std::uint32_t kOwner = 424242;  // no user that connects here

class TenantSocketClosed : public TenantSocket {
 protected:
  void create(bool for_us, Admit admit = Admit::now) {
    Share share = share_of("d", kOwner, 8 * kGiB);
    share.admit = admit;
    if (for_us) share.users = {::geteuid()};
    ASSERT_TRUE(shares_->create(share));
    ASSERT_TRUE(doors_->open("d"));
  }
  void remove() {
    doors_->close("d");
    ASSERT_TRUE(shares_->remove("d"));
    processes_->forget("d");
  }
  void let_us_in_no_more() {
    Share share = shares_->find("d")->share;
    share.users = {};
    ASSERT_TRUE(shares_->set(share));
  }
  UniqueFd at_the_door() {
    UniqueFd socket = connect_to(shares_->directory("d"));
    EXPECT_TRUE(until([&] { return doors_->connections() == 1; }));
    return socket;
  }
  ledger::SlotRef claim(int socket) {
    const ledger::SlotRef slot = ledger::seat(shares_->find("d")->pages->usage(), ledger::own_identity());
    EXPECT_TRUE(say(socket, ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed), slot.slot,
                                            slot.generation}));
    return slot;
  }
  void expect_refusal(int socket, const std::string& why) {
    const Heard heard = answer(socket);
    EXPECT_EQ(heard.head.type, ledger::MessageType::refuse);
    EXPECT_NE(heard.text.find(why), std::string::npos) << heard.text;
    EXPECT_FALSE(heard.descriptors[0]);
  }
};

TEST_F(TenantSocketClosed, AnOldConnectionEntersNoRecreatedShare) {
  create(true);
  const UniqueFd socket = at_the_door();
  remove();
  create(false);
  ASSERT_TRUE(say(socket.get(), hello()));
  expect_refusal(socket.get(), "the share 'd' has been removed");
  EXPECT_EQ(processes_->count_in("d"), 0u);
}

TEST_F(TenantSocketClosed, AnAcceptedOldConnectionGetsNoSlotEither) {
  create(true);
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(say(socket.get(), hello()));
  ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
  remove();
  create(true);
  claim(socket.get());
  expect_refusal(socket.get(), "the share 'd' has been removed");
}

// Before the daemon has checked the clock again and closed the share's pages to new processes.
TEST_F(TenantSocketClosed, AProcessIsRefusedOnceTheShareHasExpired) {
  create(true);
  Share& share = shares_->find("d")->share;
  share.created_at_s = 1;
  share.ttl = 1s;
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(say(socket.get(), hello()));
  expect_refusal(socket.get(), "share 'd' has expired");
  EXPECT_EQ(processes_->count_in("d"), 0u);
}

TEST_F(TenantSocketClosed, RightsAreCheckedAgainAtTheMessage) {
  create(true);
  const UniqueFd socket = at_the_door();
  let_us_in_no_more();
  ASSERT_TRUE(say(socket.get(), hello()));
  expect_refusal(socket.get(), "may not use");
  EXPECT_EQ(processes_->count_in("d"), 0u);
}

TEST_F(TenantSocketClosed, RightsAreCheckedAgainAtTheAnswer) {
  create(true, Admit::ask);
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(say(socket.get(), hello()));
  ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
  claim(socket.get());
  ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::hold);
  ASSERT_TRUE(until([&] { return decide_ != nullptr; }));
  let_us_in_no_more();
  std::exchange(decide_, nullptr)({});
  expect_refusal(socket.get(), "may not use");
}

TEST_F(TenantSocketClosed, AnAnswerAfterARemovalEntersNoSuccessor) {
  create(true, Admit::ask);
  const UniqueFd socket = at_the_door();
  ASSERT_TRUE(say(socket.get(), hello()));
  ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
  const ledger::SlotRef slot = claim(socket.get());
  ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::hold);
  ASSERT_TRUE(until([&] { return decide_ != nullptr; }));
  ledger::release(shares_->find("d")->pages->usage(), slot);
  remove();
  create(true, Admit::ask);
  std::exchange(decide_, nullptr)({});
  expect_refusal(socket.get(), "the share 'd' has been removed");
}

}  // namespace
}  // namespace headgate::tenancy
