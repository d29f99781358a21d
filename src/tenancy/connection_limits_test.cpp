#include "tenancy/connection_limits.hpp"

#include <gtest/gtest.h>

namespace headgate::tenancy {
namespace {

identity::Peer peer_of(std::uint32_t uid, std::uint32_t pid = 1, std::optional<std::uint32_t> maker = {}) {
  identity::Peer peer;
  peer.uid = uid;
  peer.process.pid = pid;
  peer.user_namespace_owner = maker;
  return peer;
}

TEST(ConnectionLimits, ShareAndNodeHaveLimitsForAllUsers) {
  NodeConnections node;
  const ConnectionBounds bounds{.connections = 3, .connections_of_a_share = 2};
  ShareConnections one(node, bounds), other(node, bounds);
  const ConnectionToken first = one.come(peer_of(1));
  {
    const ConnectionToken second = one.come(peer_of(2));
    EXPECT_TRUE(one.full()) << "the share has its two";
    EXPECT_FALSE(other.full());
    const ConnectionToken third = other.come(peer_of(3));
    EXPECT_TRUE(other.full()) << "the node has its three";
  }
  EXPECT_FALSE(one.full() || other.full());
  EXPECT_EQ(node.connections, 1u);
}

TEST(ConnectionLimits, AUserHasLimitsInAShareAndInTheNode) {
  NodeConnections node;
  const ConnectionBounds bounds{.connections_of_a_user = 3, .connections_of_a_user_in_a_share = 2};
  ShareConnections one(node, bounds), other(node, bounds);
  const ConnectionToken first = one.come(peer_of(1)), second = one.come(peer_of(1));
  EXPECT_EQ(one.full_of(peer_of(1)), "too many processes of uid 1 are registering at once: try again");
  EXPECT_FALSE(one.full_of(peer_of(2)));
  EXPECT_FALSE(other.full_of(peer_of(1)));
  const ConnectionToken third = other.come(peer_of(1));
  EXPECT_TRUE(other.full_of(peer_of(1)));
  EXPECT_FALSE(other.full_of(peer_of(2)));
}

// A tenant that is root in a container takes any uid, and its owner can make shares under ever new names.
TEST(ConnectionLimits, SharesOfAnOwnerHaveACommonLimit) {
  NodeConnections node;
  const ConnectionBounds bounds{.connections_of_an_owner = 2, .waiting_of_an_owner = 2};
  ShareConnections one(node, bounds, 1000), other(node, bounds, 1000), bobs(node, bounds, 1001), roots(node, bounds);
  const ConnectionToken first = one.come(peer_of(1)), second = other.come(peer_of(2));
  EXPECT_TRUE(one.full());
  EXPECT_TRUE(other.full());
  EXPECT_FALSE(bobs.full());
  const ConnectionToken third = roots.come(peer_of(3)), fourth = roots.come(peer_of(4));
  EXPECT_FALSE(roots.full()) << "an administrator makes shares for everybody";
  const auto waits = one.wait(peer_of(1, 1)), waits_too = other.wait(peer_of(2, 2));
  EXPECT_TRUE(waits && waits_too);
  EXPECT_FALSE(one.wait(peer_of(3, 3)));
  EXPECT_TRUE(bobs.wait(peer_of(4, 4)));
}

// Subordinate uids cost nothing, and root creates namespaces for other users.
TEST(ConnectionLimits, UsersOfANamespaceCountAsItsMaker) {
  NodeConnections node;
  const ConnectionBounds bounds{.connections_of_a_user_in_a_share = 2, .waiting_of_a_user = 2};
  ShareConnections door(node, bounds);
  const ConnectionToken first = door.come(peer_of(100'001, 1, 1000)), second = door.come(peer_of(100'002, 2, 1000));
  EXPECT_TRUE(door.full_of(peer_of(100'003, 3, 1000)));
  EXPECT_TRUE(door.full_of(peer_of(1000)));
  EXPECT_FALSE(door.full_of(peer_of(100'003, 3, 0)));
  const auto waits = door.wait(peer_of(100'001, 1, 1000)), waits_too = door.wait(peer_of(100'002, 2, 1000));
  EXPECT_TRUE(waits && waits_too);
  EXPECT_FALSE(door.wait(peer_of(100'003, 3, 1000)));
  EXPECT_TRUE(door.wait(peer_of(100'003, 3, 0)));
}

TEST(ConnectionLimits, AProcessWaitsOnceAndAgainAfterItsAnswer) {
  NodeConnections node;
  const ConnectionBounds bounds{.waiting = 2};
  ShareConnections door(node, bounds);
  {
    const auto waits = door.wait(peer_of(1, 7));
    ASSERT_TRUE(waits);
    EXPECT_FALSE(door.wait(peer_of(1, 7)));
    const auto other = door.wait(peer_of(2, 8));
    EXPECT_TRUE(other);
    EXPECT_FALSE(door.wait(peer_of(3, 9))) << "the node has its two";
  }
  EXPECT_EQ(node.waiting(), 0u);
  EXPECT_TRUE(door.wait(peer_of(1, 7)));
}

}  // namespace
}  // namespace headgate::tenancy
