#include "config/power_settings.hpp"

#include <gtest/gtest.h>

namespace headgate::config {
namespace {

TEST(PowerSettings, AQuantityIsReadAndWrittenBack) {
  for (const char* text : {"300W", "0.5W", "80%", "62.5%", "default"}) {
    const auto limit = parse_power_limit(text);
    ASSERT_TRUE(limit) << text;
    EXPECT_EQ(format_power_limit(*limit), text);
  }
  for (const char* text : {"1200MHz", "210-1200MHz", "none"}) {
    const auto clocks = parse_clocks(text);
    ASSERT_TRUE(clocks) << text;
    EXPECT_EQ(format_clocks(*clocks), text);
  }
  for (const char* text : {"default", "exclusive process", "prohibited"})
    EXPECT_EQ(format_compute_mode(*parse_compute_mode(text)), text);
  EXPECT_EQ(parse_milliwatts("0.3 kW"), 300'000u);
  EXPECT_EQ(parse_power_limit("80 %"), (PowerLimit{PowerLimit::Kind::of_maximum, 80'000}));
}

TEST(PowerSettings, AnInvalidQuantityIsRefused) {
  for (const char* text :
       {"", "W", "300", "-1W", "+1W", "1e3W", "0W", "5000000W", "inf W", "nanW", "101%", "0%", "300 Watt"})
    EXPECT_FALSE(parse_power_limit(text)) << text;
  for (const char* text : {"", "1200", "0MHz", "900-210MHz", "-1MHz", "4294967296MHz", "1-2-3MHz", "MHz"})
    EXPECT_FALSE(parse_clocks(text)) << text;
  EXPECT_FALSE(parse_compute_mode("1"));
}

TEST(PowerSettings, ABudgetAndALimitExcludeEachOther) {
  PowerSettings settings;
  EXPECT_FALSE(check_power_settings(settings)) << "nothing is named";
  settings.weights = {1};
  EXPECT_FALSE(check_power_settings(settings)) << "weights of nothing";
  settings.budget_mw = 1;
  EXPECT_TRUE(check_power_settings(settings));
  settings.weights = {0};
  EXPECT_FALSE(check_power_settings(settings));
  settings.weights = {};
  settings.power_limit = PowerLimit{};
  EXPECT_FALSE(check_power_settings(settings));
}

}  // namespace
}  // namespace headgate::config
