// How many peers a share's socket takes, and which others they keep out.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "base/test_untrusted_socket.hpp"
#include "tenancy/test_registration.hpp"

namespace headgate::tenancy {
namespace {

class TenantSocketLimits : public TenantSocket {
 protected:
  void ask_first() {
    Share share = shares_->find("s")->share;
    share.admit = Admit::ask;
    ASSERT_TRUE(shares_->set(share));
  }
  UniqueFd welcomed() {
    UniqueFd socket = connect_to(directory());
    EXPECT_TRUE(say(socket.get(), hello()));
    EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
    return socket;
  }
  static void claim(int socket, ledger::SlotRef slot) {
    ASSERT_TRUE(say(socket, ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed), slot.slot,
                                            slot.generation}));
  }
};

TEST_F(TenantSocketLimits, OneUsersIdleConnectionsExcludeNoOther) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  Share share = shares_->find("s")->share;
  share.everyone = true;
  ASSERT_TRUE(shares_->set(share));
  for (const bool in_the_share : {true, false}) {
    open_doors({.connections = 4,
                .connections_of_a_share = 4,
                .connections_of_a_user = in_the_share ? 4u : 2u,
                .connections_of_a_user_in_a_share = in_the_share ? 2u : 4u,
                .conversation = 60s});
    std::vector<UniqueFd> idle;
    for (int n = 0; n < 4; ++n) idle.push_back(connect_to(directory()));
    EXPECT_EQ(answer(idle[2].get()).text, "too many processes of uid 0 are registering at once: try again");
    EXPECT_EQ(answer(idle[3].get()).head.type, ledger::MessageType::refuse);
    const Tenant other = start_tenant([] { return ::setgid(65534) == 0 && ::setuid(65534) == 0; });
    EXPECT_TRUE(told(other)) << "exit status " << end(other);
    end(other);
    // A peer that leaves makes room.
    idle.clear();
    ASSERT_TRUE(until([&] { return doors_->connections() == 0; }));
    welcomed();
  }
}

TEST_F(TenantSocketLimits, AWaitingProcessTakesNoRegistrationPlace) {
  ask_first();
  open_doors({.connections = 1, .connections_of_a_share = 1});
  const UniqueFd first = welcomed();
  const ledger::SlotRef slot = ledger::seat(usage(), ledger::own_identity());
  claim(first.get(), slot);
  ASSERT_EQ(answer(first.get()).head.type, ledger::MessageType::hold);
  EXPECT_EQ(doors_->connections(), 0u);
  EXPECT_EQ(doors_->waiting(), 1u);
  const UniqueFd second = welcomed();
  claim(second.get(), slot);
  EXPECT_EQ(answer(second.get()).text,
            "process " + std::to_string(::getpid()) + " waits for an answer already: try again");
  ASSERT_EQ(asked_.size(), 1u);
  std::exchange(decide_, nullptr)({});
  EXPECT_EQ(answer(first.get()).head.type, ledger::MessageType::seated);
  EXPECT_TRUE(until([&] { return doors_->connections() == 0; }));
  EXPECT_EQ(doors_->waiting(), 0u);
}

// Descriptors that arrive with a message, and those left unread because their sender is refused. A listener that closed
// them itself would block for an hour.
TEST_F(TenantSocketLimits, ASenderOfDescriptorsBlocksNoOther) {
  const auto send_some = [&](RegistrationServer::Bounds bounds) {
    open_doors(bounds);
    const UniqueFd socket = connect_to(directory());
    LingeringConnection trap;
    EXPECT_EQ(trap.send_along(socket.get(), "t"), !kernel_refuses_descriptors()) << errno;
    ASSERT_TRUE(until([&] {
      pollfd end{socket.get(), POLLHUP, 0};
      return ::poll(&end, 1, 0) == 1 || kernel_refuses_descriptors();
    }));
  };
  const auto both = [&] {
    send_some({});
    send_some({.connections = 0});
  };
  both();
  const bool there = on_an_old_kernel(both);
  open_doors({});
  const UniqueFd socket = connect_to(directory());
  ASSERT_TRUE(say(socket.get(), hello()));
  EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
  if (!there) GTEST_SKIP() << "skipped: no system call may be filtered here";
}

TEST_F(TenantSocketLimits, AProcessWithoutASlotIsNotAskedAbout) {
  ask_first();
  const UniqueFd socket = welcomed();
  claim(socket.get(), {.slot = 3, .generation = 1});
  EXPECT_EQ(answer(socket.get()).text, "slot 3 is not yours");
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(lies_.size(), 1u);
}

TEST_F(TenantSocketLimits, AShareTakesAsManyProcessesAsItHasSlots) {
  const auto self = static_cast<std::uint32_t>(::getpid());
  const auto enter = [&](std::uint32_t pid) {
    TenantProcess tenant;
    tenant.share = "s";
    tenant.process.pid = pid;
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    ASSERT_TRUE(processes_->enter(std::move(tenant), std::move(pidfd)));
  };
  for (std::uint32_t n = 1; n <= ledger::kMaxSlots; ++n) enter(self + n);
  const UniqueFd socket = connect_to(directory());
  ASSERT_TRUE(say(socket.get(), hello()));
  const Heard heard = answer(socket.get());
  EXPECT_EQ(heard.text, "the share has 256 processes, and no room for more");
  EXPECT_EQ(heard.code, ledger::Refusal::busy);
}

TEST_F(TenantSocketLimits, WaitingProcessesOfAUserAreBounded) {
  ask_first();
  open_doors({.waiting_of_a_user = 0});
  const UniqueFd socket = welcomed();
  claim(socket.get(), ledger::seat(usage(), ledger::own_identity()));
  EXPECT_EQ(answer(socket.get()).text,
            "too many processes of uid " + std::to_string(::geteuid()) + " wait for an answer: try again");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(TenantSocketLimits, WaitingProcessesOfTheNodeAreBounded) {
  ask_first();
  open_doors({.waiting = 0});
  const UniqueFd socket = welcomed();
  claim(socket.get(), ledger::seat(usage(), ledger::own_identity()));
  const Heard heard = answer(socket.get());
  EXPECT_EQ(heard.text, "too many processes wait for an answer: try again");
  EXPECT_EQ(heard.code, ledger::Refusal::busy);
  EXPECT_TRUE(asked_.empty());
}

// A limiter accepts one Hold: after it, it could not try again.
TEST_F(TenantSocketLimits, AProcessBeyondTheLimitIsToldToTryAgain) {
  ask_first();
  decide_at_once_ = fail(ErrorCode::no_capacity, "too many questions are open: try again");
  const UniqueFd socket = welcomed();
  claim(socket.get(), ledger::seat(usage(), ledger::own_identity()));
  const Heard heard = answer(socket.get());
  EXPECT_EQ(heard.head.type, ledger::MessageType::refuse);
  EXPECT_EQ(heard.code, ledger::Refusal::busy);
  EXPECT_EQ(heard.text, "too many questions are open: try again");
  EXPECT_EQ(doors_->waiting(), 0u);
}

}  // namespace
}  // namespace headgate::tenancy
