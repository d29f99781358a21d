#include <gtest/gtest.h>

#include "config/config.hpp"

namespace headgate::config {
namespace {

Reading profiles_of(const std::string& text) {
  Reading reading = defaults();
  read_text(text, "c.toml", reading);
  return reading;
}

TEST(PowerProfiles, AreReadWithTheirSettings) {
  const Reading reading = profiles_of(
      "[power]\nat_start = 'site'\n[power.profile.site]\npower_limit = '80%'\npersistence = true\ngpu_clocks = "
      "'210-1200MHz'\ncompute_mode = 'default'\n[power.profile.night]\nbudget = '500W'\nweights = [2, 1]\n");
  for (const Error& error : reading.errors) ADD_FAILURE() << error.message;
  ASSERT_EQ(reading.config.power_profiles.size(), 2u);
  const bool first_is_site = reading.config.power_profiles[0].name == "site";
  const PowerProfile& site = reading.config.power_profiles[first_is_site ? 0 : 1];
  const PowerProfile& night = reading.config.power_profiles[first_is_site ? 1 : 0];
  EXPECT_EQ(site.origin, "c.toml:3");
  EXPECT_EQ(site.settings.power_limit, parse_power_limit("80%"));
  EXPECT_EQ(site.settings.gpu_mhz, (Range{210, 1200}));
  EXPECT_EQ(site.settings.persistence, true);
  EXPECT_EQ(night.settings.budget_mw, 500'000u);
  EXPECT_EQ(night.settings.weights, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(reading.config["power.at_start"].value, "site");
}

TEST(PowerProfiles, ADropInReplacesAProfileOfItsName) {
  Reading reading = profiles_of("[power.profile.a]\npower_limit = '300W'\n");
  read_text("[power.profile.a]\npower_limit = '200W'\n", "conf.d/b.toml", reading);
  ASSERT_EQ(reading.config.power_profiles.size(), 1u);
  EXPECT_EQ(reading.config.power_profiles[0].settings.power_limit, parse_power_limit("200W"));
}

TEST(PowerProfiles, EachMistakeNamesItsPlaceAndWhatIsAccepted) {
  const std::pair<const char*, const char*> bad[] = {
      {"[power.profile]\na = 1\n", "power.profile.a is no table"},
      {"[power]\nprofile = 1\n", "power.profile is no table"},
      {"[power.profile.a]\n", "power.profile.a: settings names nothing"},
      {"[power.profile.a]\npower_limit = 300\n", "c.toml:2: power.profile.a.power_limit = 300 is not accepted"},
      {"[power.profile.a]\npower_limit = '300'\n", "is not accepted"},
      {"[power.profile.a]\nclocks = '300'\n", "power.profile.a.clocks"},
      {"[power.profile.a]\npersistence = 'yes'\n", "is not accepted"},
      {"[power.profile.a]\ncompute_mode = 3\n", "is not accepted"},
      {"[power.profile.a]\nbudget = '5W'\nweights = []\n", "is not accepted"},
      {"[power.profile.a]\nbudget = '5W'\nweights = [1001]\n", "is not accepted"},
      {"[power.profile.a]\nweights = [1]\n", "weights belong to a budget"},
      {"[power.profile.a]\nbudget = '5W'\npower_limit = '1W'\n", "exclude each other"},
  };
  for (const auto& [text, words] : bad) {
    const Reading reading = profiles_of(text);
    ASSERT_EQ(reading.errors.size(), 1u) << text;
    EXPECT_NE(reading.errors[0].message.find(words), std::string::npos) << reading.errors[0].message;
    EXPECT_FALSE(reading.errors[0].hint.empty());
    EXPECT_TRUE(reading.config.power_profiles.empty()) << text;
  }
}

}  // namespace
}  // namespace headgate::config
