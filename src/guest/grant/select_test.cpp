#include "guest/grant/select.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace headgate::grant {
namespace {

const Candidate kNode[] = {
    {"GPU-9c2f0000-aaaa", "00000000:1B:00.0", 10},
    {"GPU-9c2f1111-bbbb", "00000000:3D:00.0", 30},
    {"GPU-77770000-cccc", "00000000:B1:00.0", 30},
    {"GPU-11110000-dddd", "00010000:1B:00.0", 20},
};

std::vector<int> picked(std::string_view text) {
  const Selection selection = select(text, kNode);
  EXPECT_TRUE(selection) << text << ": " << describe(selection.fault);
  return {selection.index, selection.index + selection.count};
}

TEST(Select, FindsTheCardByEachKindOfName) {
  EXPECT_EQ(picked("0"), (std::vector{0}));
  EXPECT_EQ(picked("3,0"), (std::vector{3, 0}));
  EXPECT_EQ(picked("0,2-3"), (std::vector{0, 2, 3}));
  EXPECT_EQ(picked(" 1 , 2 "), (std::vector{1, 2}));
  EXPECT_EQ(picked("GPU-77770000-cccc"), (std::vector{2}));
  EXPECT_EQ(picked("gpu-9C2F1"), (std::vector{1}));
  EXPECT_EQ(picked("0000:1b:00.0"), (std::vector{0}));
  EXPECT_EQ(picked("00000000:B1:00.0"), (std::vector{2}));
  EXPECT_EQ(picked("3d:00.0"), (std::vector{1}));
  EXPECT_EQ(picked("10000:1b:00.0"), (std::vector{3}));
  EXPECT_EQ(picked("all"), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(picked("auto"), (std::vector{1}));
}

TEST(Select, RefusesNamesOfNoCardOrTheWrongOne) {
  const struct {
    std::string_view text;
    SelectFault fault;
    std::string_view token;
  } table[] = {
      {"", SelectFault::empty, ""},
      {"0,,1", SelectFault::empty, ""},
      {"4", SelectFault::unknown, "4"},
      {"2-9", SelectFault::unknown, "2-9"},
      {"3-1", SelectFault::backwards, "3-1"},
      {"0-", SelectFault::junk, "0-"},
      {"-1", SelectFault::junk, "-1"},
      {"0,0", SelectFault::repeated, "0"},
      {"0,GPU-9c2f0", SelectFault::repeated, "GPU-9c2f0"},
      {"GPU-9c2f", SelectFault::ambiguous, "GPU-9c2f"},
      {"GPU-", SelectFault::junk, "GPU-"},
      {"GPU-dead", SelectFault::unknown, "GPU-dead"},
      {"0000:2b:00.0", SelectFault::unknown, "0000:2b:00.0"},
      {"MIG-1234", SelectFault::mig, "MIG-1234"},
      {"0:1", SelectFault::mig, "0:1"},
      {"first", SelectFault::junk, "first"},
      {"99999999999999999999", SelectFault::junk, "99999999999999999999"},
  };
  for (const auto& row : table) {
    const Selection selection = select(row.text, kNode);
    EXPECT_EQ(selection.fault, row.fault) << row.text;
    EXPECT_EQ(selection.token, row.token) << row.text;
  }
}

TEST(Select, FindsNothingOnANodeWithoutGpus) {
  for (const auto* text : {"0", "all", "auto", "GPU-1"})
    EXPECT_EQ(select(text, {}).fault, SelectFault::unknown) << text;
}

}  // namespace
}  // namespace headgate::grant
