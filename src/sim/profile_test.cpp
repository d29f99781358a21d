#include "sim/profile.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace headgate::sim {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

TEST(Profile, TheThreeNodesOfTheManualAreBuiltIn) {
  ASSERT_NE(find_profile("h200"), nullptr);
  EXPECT_EQ(find_profile("h200")->count, 1U);
  EXPECT_EQ(find_profile("h200")->sm_count, 132U);
  EXPECT_EQ(find_profile("h200")->memory_bytes, 141 * kGiB);
  ASSERT_NE(find_profile("l40s-x2"), nullptr);
  EXPECT_EQ(find_profile("l40s-x2")->count, 2U);
  EXPECT_EQ(find_profile("l40s-x2")->sm_count, 142U);
  EXPECT_EQ(find_profile("l40s-x2")->memory_bytes, 45 * kGiB);
  ASSERT_NE(find_profile("tiny"), nullptr);
  EXPECT_EQ(find_profile("tiny")->memory_bytes, 2 * kGiB);
  EXPECT_STREQ(find_profile("tiny")->model, "NVIDIA Simulated Tiny");
  EXPECT_EQ(find_profile("h100"), nullptr);
  EXPECT_STREQ(built_in_profiles().front().name, "h200") << "the first is what a node without a profile gets";
}

TEST(Profile, EveryUuidIsValidAndUnique) {
  const std::regex form("GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  Profile profile = *find_profile("l40s-x2");
  std::set<std::string> seen, buses, serials;
  for (std::uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
    profile.node_seed = seed;
    for (std::uint32_t i = 0; i < kMaxDevices; ++i) {
      const std::string text = uuid_text(profile, i).data();
      EXPECT_TRUE(std::regex_match(text, form)) << text;
      EXPECT_TRUE(seen.insert(text).second) << text;
      buses.insert(pci_bus_id(profile, i).data());
      EXPECT_TRUE(serials.insert(serial_number(profile, i).data()).second);
    }
  }
  EXPECT_EQ(buses.size(), kMaxDevices);
}

TEST(Profile, ModelsWithOneSeedHaveDifferentGpus) {
  std::set<std::string> seen, serials;
  for (Profile profile : built_in_profiles()) {
    profile.node_seed = 7;
    EXPECT_TRUE(seen.insert(uuid_text(profile, 0).data()).second) << profile.name;
    EXPECT_TRUE(serials.insert(serial_number(profile, 0).data()).second) << profile.name;
  }
}

TEST(Profile, ANodeKeepsItsUuids) {
  EXPECT_EQ(uuid_text(*find_profile("h200"), 0), uuid_text(*find_profile("h200"), 0));
  EXPECT_STREQ(pci_bus_id(*find_profile("h200"), 0).data(), "00000000:17:00.0");
  EXPECT_STREQ(pci_bus_id_legacy(*find_profile("h200"), 1).data(), "0000:1F:00.0");
}

}  // namespace
}  // namespace headgate::sim
