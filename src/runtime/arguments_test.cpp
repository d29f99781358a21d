#include "runtime/arguments.hpp"

#include <gtest/gtest.h>

namespace headgate::runtime {
namespace {

using Words = std::vector<std::string>;

TEST(RuntimeArguments, FindCommandBundleAndLog) {
  const Arguments docker =
      read_arguments(Words{"--root", "/run/docker", "--log", "/a b/log.json", "--log-format", "json",
                           "--systemd-cgroup", "create", "--bundle", "/b 'c\"", "--pid-file", "/p", "id"});
  EXPECT_EQ(docker.command, "create");
  EXPECT_EQ(docker.bundle, "/b 'c\"");
  EXPECT_EQ(docker.log, "/a b/log.json");
  EXPECT_TRUE(docker.log_is_json);
  EXPECT_EQ(docker.passed.size(), 13u);

  const Arguments podman = read_arguments(Words{"--log=/l", "--rootless=true", "run", "-b=/x", "id"});
  EXPECT_EQ(podman.command, "run");
  EXPECT_EQ(podman.bundle, "/x");
  EXPECT_EQ(podman.log, "/l");
  EXPECT_FALSE(podman.log_is_json);
}

TEST(RuntimeArguments, KeepForeignArguments) {
  const Words words = {"--headgate-config", "/c.toml", "--debug", "--log", "/l", "delete", "--force", "create"};
  const Arguments all = read_arguments(words);
  EXPECT_EQ(all.command, "delete");
  EXPECT_EQ(all.configuration, "/c.toml");
  EXPECT_EQ(all.passed, (Words{"--debug", "--log", "/l", "delete", "--force", "create"}));
  EXPECT_EQ(read_arguments(Words{"--headgate-config=/d", "state", "x"}).passed, (Words{"state", "x"}));
}

TEST(RuntimeArguments, MayBeTruncatedAnywhere) {
  EXPECT_EQ(read_arguments({}).command, "");
  EXPECT_EQ(read_arguments(Words{"--version"}).command, "");
  EXPECT_EQ(read_arguments(Words{"--version"}).passed, Words{"--version"});
  EXPECT_EQ(read_arguments(Words{"--log"}).passed, Words{"--log"});
  EXPECT_EQ(read_arguments(Words{"create", "--bundle"}).bundle, "");
  EXPECT_EQ(read_arguments(Words{"create", "id"}).bundle, ".");
}

}  // namespace
}  // namespace headgate::runtime
