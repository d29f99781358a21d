#include "config/power_grants.hpp"

#include <gtest/gtest.h>

#include "config/config.hpp"

namespace headgate::config {
namespace {

Reading read_of(const std::string& text) {
  Reading reading = defaults();
  read_text(text, "c.toml", reading);
  return reading;
}

TEST(PowerGrants, AreReadWithTheirRanges) {
  const Reading reading = read_of(
      "[[power.grant]]\nusers = ['alice', 1001]\ngpus = [0, 'GPU-1']\nwatts = [200, 300.5]\nmhz = [210, 1410]\n"
      "[[power.grant]]\ngroups = ['hpc']\nmemory_mhz = [405, 405]\npersistence = true\n");
  ASSERT_TRUE(reading.errors.empty()) << reading.errors[0].message;
  ASSERT_EQ(reading.config.power_grants.size(), 2u);
  const PowerGrant first{.users = {"alice", "1001"},
                         .groups = {},
                         .gpus = {"0", "GPU-1"},
                         .milliwatts = Range{200'000, 300'500},
                         .mhz = Range{210, 1410},
                         .memory_mhz = {},
                         .persistence = false,
                         .origin = "c.toml:1"};
  EXPECT_EQ(reading.config.power_grants[0], first);
  EXPECT_EQ(reading.config.power_grants[1].groups, std::vector<std::string>{"hpc"});
  EXPECT_TRUE(reading.config.power_grants[1].persistence);
  EXPECT_FALSE(reading.config.power_grants[1].milliwatts) << "the power limit is not granted";
}

TEST(PowerGrants, ADropInAddsToThem) {
  Reading reading = read_of("[[power.grant]]\nusers = ['a']\npersistence = true\n");
  read_text("[[power.grant]]\nusers = ['b']\npersistence = true\n", "conf.d/b.toml", reading);
  ASSERT_EQ(reading.config.power_grants.size(), 2u);
  EXPECT_EQ(reading.config.power_grants[1].origin, "conf.d/b.toml:1");
}

TEST(PowerGrants, MistakesAreRefusedWithTheirPlace) {
  const std::pair<const char*, const char*> bad[] = {
      {"users = []\nwatts = [1, 2]", "c.toml:2: power.grant.users = [] is no list"},
      {"users = ['']\nwatts = [1, 2]", "an entry that is no name"},
      {"users = [-1]\nwatts = [1, 2]", "an entry that is no name"},
      {"users = ['a']\nwatts = [300, 200]", "a minimum above its maximum"},
      {"users = ['a']\nwatts = [100]", "is no pair of numbers"},
      {"users = ['a']\nwatts = ['x', 2]", "an entry that is no number"},
      {"users = ['a']\nwatts = [-1, 2]", "an entry that is no number"},
      {"users = ['a']\nwatts = [nan, 2]", "an entry that is no number"},
      {"users = ['a']\nmhz = [0, 5000000000]", "an entry that is no number"},
      {"users = ['a']\npersistence = 1", "is neither true nor false"},
      {"users = ['a']\nwatt = [1, 2]", "power.grant.watt = [ 1, 2 ] is not known"},
      {"users = ['a']", "grants nothing"},
      {"watts = [1, 2]", "names neither users nor groups"},
  };
  for (const auto& [text, words] : bad) {
    const Reading reading = read_of(std::string("[[power.grant]]\n") + text);
    ASSERT_EQ(reading.errors.size(), 1u) << text;
    EXPECT_NE(reading.errors[0].message.find(words), std::string::npos) << reading.errors[0].message;
    EXPECT_FALSE(reading.errors[0].hint.empty());
    EXPECT_TRUE(reading.config.power_grants.empty()) << text;
  }
  EXPECT_EQ(read_of("[power]\ngrant = 1").errors.size(), 1u);
}

TEST(ZeusdKeys, ListsAreArraysOrCommas) {
  EXPECT_EQ(read_of("[zeusd]\nlisten = ['127.0.0.1:4938', '[::1]:4938']").config["zeusd.listen"].value,
            "127.0.0.1:4938,[::1]:4938");
  EXPECT_EQ(read_of("[zeusd]\nenable = 'gpu-read'").config["zeusd.enable"].value, "gpu-read");
  EXPECT_EQ(read_of("").config["zeusd.enable"].value, "gpu-control,gpu-read,cpu-read");
  for (const char* text : {"listen = ['nowhere']", "listen = []", "listen = [1]", "enable = ['gpu-write']",
                           "socket = 'x'", "listen = ['127.0.0.1:1', '']", "signing_key = 'x'"})
    EXPECT_EQ(read_of(std::string("[zeusd]\n") + text).errors.size(), 1u) << text;
}

}  // namespace
}  // namespace headgate::config
