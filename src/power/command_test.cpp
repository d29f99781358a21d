#include "power/command.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

Command of(Operation operation) { return {.operation = operation}; }

TEST(Command, ALaterSettingReplacesTheSameControlOnly) {
  EXPECT_TRUE(supersedes(of(Operation::set_power_limit), of(Operation::set_power_limit)));
  EXPECT_TRUE(supersedes(of(Operation::reset_gpu_locked_clocks), of(Operation::set_gpu_locked_clocks)));
  EXPECT_TRUE(supersedes(of(Operation::reset_locked_clocks), of(Operation::set_mem_locked_clocks)));
  EXPECT_FALSE(supersedes(of(Operation::set_gpu_locked_clocks), of(Operation::reset_locked_clocks)))
      << "the memory clocks still have to be reset";
  EXPECT_FALSE(supersedes(of(Operation::set_mem_locked_clocks), of(Operation::set_gpu_locked_clocks)));
  EXPECT_FALSE(supersedes(of(Operation::set_power_limit), of(Operation::set_persistence_mode)));
}

TEST(Command, AReadNeitherReplacesNorIsReplaced) {
  EXPECT_FALSE(supersedes(of(Operation::set_power_limit), of(Operation::get_power_limit)));
  EXPECT_FALSE(supersedes(of(Operation::get_power_limit), of(Operation::set_power_limit)));
  EXPECT_FALSE(supersedes(of(Operation::get_power_limit), of(Operation::get_power_limit)));
}

TEST(Command, WattsKeepTheMilliwatts) {
  EXPECT_EQ(watts_text(200'000), "200 W");
  EXPECT_EQ(watts_text(199'500), "199.5 W");
  EXPECT_EQ(watts_text(1), "0.001 W");
  EXPECT_EQ(watts_text(0), "0 W");
}

TEST(Command, TheLogNamesOperationAndValue) {
  EXPECT_EQ(describe({.operation = Operation::set_power_limit, .power_limit_mw = 250'000}), "set_power_limit 250 W");
  EXPECT_EQ(describe({.operation = Operation::set_gpu_locked_clocks, .clocks = {210, 1200}}),
            "set_gpu_locked_clocks 210 to 1200 MHz");
  EXPECT_EQ(describe({.operation = Operation::set_persistence_mode, .enabled = true}), "set_persistence_mode on");
  EXPECT_EQ(describe(of(Operation::reset_locked_clocks)), "reset_locked_clocks");
}

}  // namespace
}  // namespace headgate::power
