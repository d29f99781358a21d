#include "power/settings.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

TEST(Settings, PersistenceIsSetFirstAndRestoredLast) {
  Settings settings;
  settings.persistence = true;
  settings.power_limit_mw = 200'000;
  settings.gpu_clocks = ClockRange{};
  const auto apply = commands_to_apply(settings), restore = commands_to_restore(settings);
  ASSERT_EQ(apply.size(), 3u);
  EXPECT_EQ(apply.front().operation, Operation::set_persistence_mode);
  EXPECT_EQ(restore.back().operation, Operation::set_persistence_mode);
  EXPECT_EQ(restore.front().operation, Operation::reset_gpu_locked_clocks) << "no clocks were locked before";
}

TEST(Settings, TheFirstCommonControlIsNamed) {
  Settings a, b;
  a.power_limit_mw = 1;
  a.mem_clocks = ClockRange{1, 2};
  b.persistence = true;
  EXPECT_FALSE(common_control(a, b));
  b.mem_clocks = ClockRange{};
  EXPECT_EQ(common_control(a, b), "memory clocks");
}

TEST(Settings, ACommandNamesItsControls) {
  EXPECT_EQ(controls_of(named_by({.operation = Operation::reset_locked_clocks})).size(), 2u);
  EXPECT_EQ(controls_of(named_by({.operation = Operation::set_power_limit}))[0].name, "power limit");
  EXPECT_TRUE(named_by({.operation = Operation::get_power}).empty());
}

TEST(Settings, PartsAreRemovedReplacedAndAdded) {
  Settings a, b;
  a.power_limit_mw = 1;
  a.persistence = true;
  b.power_limit_mw = 2;
  b.compute_mode = 3;
  EXPECT_EQ(controls_of(without(a, b)), (std::vector<Control>{{"persistence mode", "on"}}));
  Settings replaced = a, added = a;
  replace_named(replaced, b);
  EXPECT_EQ(replaced.power_limit_mw, 2u);
  EXPECT_FALSE(replaced.compute_mode);
  add_missing(added, b);
  EXPECT_EQ(added.power_limit_mw, 1u);
  EXPECT_EQ(added.compute_mode, 3u);
}

TEST(Settings, EachControlHasAValueForPeople) {
  Settings all;
  all.power_limit_mw = 200'000;
  all.persistence = false;
  all.gpu_clocks = ClockRange{210, 900};
  all.mem_clocks = ClockRange{};
  all.compute_mode = 3;
  EXPECT_EQ(controls_of(all), (std::vector<Control>{{"power limit", "200 W"},
                                                    {"persistence mode", "off"},
                                                    {"GPU clocks", "210 to 900 MHz"},
                                                    {"memory clocks", "none"},
                                                    {"compute mode", "exclusive process"}}));
}

}  // namespace
}  // namespace headgate::power
