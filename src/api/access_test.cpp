#include "api/access.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

http::Request over_unix(std::uint32_t uid, std::uint32_t gid, std::vector<gid_t> groups = {}) {
  http::Request request;
  request.peer = {.is_unix = true, .uid = uid, .gid = gid, .groups = std::move(groups)};
  return request;
}

http::Request over_tcp(const std::string& shown) {
  http::Request request;
  if (!shown.empty()) request.headers.push_back({"Authorization", shown});
  return request;
}

TEST(Access, UnixSocketAdministratorsAreRootDaemonAndGroup) {
  const Access access{.daemon_uid = 900, .admin_gid = 50, .token = {}};
  EXPECT_TRUE(caller_of(over_unix(0, 0), access)->administrator);
  EXPECT_TRUE(caller_of(over_unix(900, 900), access)->administrator);
  EXPECT_TRUE(caller_of(over_unix(1000, 50), access)->administrator);
  EXPECT_TRUE(caller_of(over_unix(1000, 9, {7, 50}), access)->administrator) << "a group beside the first";
  const auto user = caller_of(over_unix(1000, 9, {7}), access);
  EXPECT_FALSE(user->administrator);
  EXPECT_EQ(user->gids, (std::vector<std::uint32_t>{7, 9}));
}

TEST(Access, ARootlessContainersProcessActsAsItsUser) {
  const Access access{.daemon_uid = 900, .admin_gid = 50, .token = {}};
  http::Request request = over_unix(100033, 100033);
  request.peer.user = 1000;
  EXPECT_EQ(caller_of(request, access)->uid, 1000u);
  request.peer.user = 900;
  EXPECT_EQ(caller_of(request, access)->uid, 900u);
  EXPECT_FALSE(caller_of(request, access)->administrator) << "the daemon's user does, by its own uid";
}

TEST(Access, TcpNeedsTheWholeTokenAndKnowsNoRoot) {
  const Access access{.admin_gid = {}, .token = "s3cret"};
  for (const char* shown : {"Bearer s3cret", "bearer s3cret"})
    EXPECT_TRUE(caller_of(over_tcp(shown), access)->administrator) << shown;
  for (const char* shown :
       {"", "Bearer ", "Bearer s3cre", "Bearer s3creT", "s3cret", "Bearer s3cret2", "Bearer s3crets3cret"})
    EXPECT_FALSE(caller_of(over_tcp(shown), access)) << shown;
  const Access none{.admin_gid = {}, .token = {}};
  for (const char* shown : {"", "Bearer ", "Bearer x"}) {
    const auto stranger = caller_of(over_tcp(shown), none);
    EXPECT_FALSE(stranger->administrator || stranger->known()) << shown;
  }
}

TEST(Access, OnlyAdministratorsActForAChannelClient) {
  CurrentAccess access;
  access.set({.daemon_uid = 900, .admin_gid = 50, .token = "s3cret"});
  const auto may = administrators(access);
  EXPECT_TRUE(may(over_unix(1000, 50), "sched"));
  EXPECT_TRUE(may(over_tcp("Bearer s3cret"), ""));
  EXPECT_EQ(may(over_unix(1000, 9), "sched").error().message, "you may not speak for client 'sched'");
  EXPECT_EQ(may(over_unix(1000, 9), "").error().message, "you may not see the task channel");
  EXPECT_FALSE(may(over_tcp(""), "sched"));
}

}  // namespace
}  // namespace headgate::api
