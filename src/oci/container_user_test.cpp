#include "oci/container_config.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

ContainerUser user_of(const char* text) {
  const auto config = ContainerConfig::read(text);
  if (!config) throw std::runtime_error(config.error().message);
  return container_user(*config);
}

TEST(ContainerUserOnTheHost, IsTheProcessesWithoutAUserNamespace) {
  EXPECT_EQ(user_of("{}"), ContainerUser{});
  EXPECT_EQ(user_of(R"({"process":{"user":{"uid":1000,"gid":100,"additionalGids":[44,109]}},
                        "linux":{"uidMappings":[{"containerID":0,"hostID":7,"size":9}]}})"),
            (ContainerUser{.uid = 1000, .gid = 100, .groups = {44, 109}}));
}

TEST(ContainerUserOnTheHost, IsMappedByItsUserNamespace) {
  const char* const text = R"({"process":{"user":{"uid":1000,"gid":5,"additionalGids":[0]}},
      "linux":{"namespaces":[{"type":"pid"},{"type":"user"}],
               "uidMappings":[{"containerID":0,"hostID":1000,"size":1},{"containerID":1,"hostID":100000,"size":65535}],
               "gidMappings":[{"containerID":0,"hostID":1000,"size":1}]}})";
  EXPECT_EQ(user_of(text), (ContainerUser{.uid = 100'999, .gid = 65534, .groups = {1000}, .has_user_namespace = true}));
}

TEST(ContainerUserOnTheHost, HasNoIdIfTheMappingsAreUnknown) {
  EXPECT_EQ(user_of(R"({"process":{"user":{"uid":3,"gid":4}},"linux":{"namespaces":[{"type":"user","path":"/x"}],
                        "uidMappings":[{"containerID":0}]}})"),
            (ContainerUser{.uid = 65534, .gid = 65534, .has_user_namespace = true}));
}

}  // namespace
}  // namespace headgate::oci
