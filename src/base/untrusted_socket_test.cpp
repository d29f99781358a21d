// If the rules are broken, these tests wait for an hour.
#include "base/untrusted_socket.hpp"

#include <poll.h>

#include "base/test_untrusted_socket.hpp"

namespace headgate {
namespace {

struct Pair {
  UniqueFd ours, theirs;
};
Pair pair_of(int type) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool closed_at_the_other_end(int socket) {
  pollfd end{socket, 0, 0};
  return ::poll(&end, 1, 30'000) == 1 && (end.revents & POLLHUP) != 0;
}

// A kernel that refuses descriptors leaves nothing else to test.
TEST(UntrustedSocket, ASenderOfDescriptorsBlocksNoOtherPeer) {
  Pair pair = pair_of(SOCK_SEQPACKET);
  refuse_descriptors(pair.ours.get());
  LingeringConnection trap;
  if (!trap.send_along(pair.theirs.get(), "t")) {
    EXPECT_EQ(errno, EPERM);
    return;
  }
  char byte = 0;
  EXPECT_EQ(receive_bytes(pair.ours.get(), &byte, 1), -1);
  close_deferred(std::move(pair.ours));
  EXPECT_TRUE(closed_at_the_other_end(pair.theirs.get()));
}

TEST(UntrustedSocket, AMessageWithDescriptorsIsNotReceived) {
  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    Pair pair = pair_of(type);
    ASSERT_EQ(::send(pair.theirs.get(), "ab", 2, 0), 2);
    char bytes[8];
    EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes), 2);
    LingeringConnection trap;
    ASSERT_TRUE(trap.send_along(pair.theirs.get(), "t"));
    for (int i = 0; i < 2; ++i) {
      errno = 0;
      EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes), -1);
      EXPECT_EQ(errno, EPERM);
    }
    close_deferred(std::move(pair.ours));
    EXPECT_TRUE(closed_at_the_other_end(pair.theirs.get()));
  }
}

TEST(UntrustedSocket, EmptyAndUrgentMessagesHideNoDescriptors) {
  char byte = 0;
  Pair empty = pair_of(SOCK_SEQPACKET), urgent = pair_of(SOCK_STREAM);
  LingeringConnection one, another;
  ASSERT_TRUE(one.send_along(empty.theirs.get(), ""));
  EXPECT_EQ(receive_bytes(empty.ours.get(), &byte, 1, MSG_TRUNC), -1);
  if (!on_an_old_kernel([&] { refuse_descriptors(urgent.ours.get()); }))
    GTEST_SKIP() << "skipped: no system call may be filtered here";
  if (another.send_along(urgent.theirs.get(), "!", MSG_OOB)) {
    EXPECT_EQ(receive_bytes(urgent.ours.get(), &byte, 1), -1);
    EXPECT_EQ(errno, EPERM);
  }
  close_deferred(std::move(empty.ours));
  close_deferred(std::move(urgent.ours));
  EXPECT_TRUE(closed_at_the_other_end(empty.theirs.get()));
  EXPECT_TRUE(closed_at_the_other_end(urgent.theirs.get()));
}

TEST(UntrustedSocket, MessagesArriveWholeWithTheirLength) {
  Pair pair = pair_of(SOCK_SEQPACKET);
  char bytes[4];
  EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(::send(pair.theirs.get(), "longer", 6, 0), 6);
  ASSERT_EQ(::send(pair.theirs.get(), "", 0, 0), 0);
  ASSERT_EQ(::send(pair.theirs.get(), "z", 1, 0), 1);
  EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes, MSG_TRUNC), 6);
  EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes, MSG_TRUNC), 0);
  EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes, MSG_TRUNC), 1);
  EXPECT_EQ(bytes[0], 'z');
  pair.theirs.reset();
  EXPECT_EQ(receive_bytes(pair.ours.get(), bytes, sizeof bytes, MSG_TRUNC), 0);
}

// Several in a row: the first must not delay the others.
TEST(UntrustedSocket, ASocketIsClosedWithoutWaitingForAnother) {
  for (int i = 0; i < 3; ++i) {
    Pair pair = pair_of(SOCK_STREAM);
    LingeringConnection trap;
    ASSERT_TRUE(trap.send_along(pair.theirs.get(), "t"));
    close_deferred(std::move(pair.ours));
    EXPECT_TRUE(closed_at_the_other_end(pair.theirs.get()));
  }
}

TEST(UntrustedSocket, ASocketWithoutDescriptorsIsClosedAtOnce) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  close_deferred(UniqueFd(ends[1]));
  EXPECT_EQ(::fcntl(ends[1], F_GETFD), -1);
}

}  // namespace
}  // namespace headgate
