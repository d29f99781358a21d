#include "guest/grant/numbering.hpp"

#include <gtest/gtest.h>

#include <string>

namespace headgate::grant {
namespace {

std::string numbered(std::string_view visible, std::string_view gpus = "GPU-a,GPU-b,GPU-c", std::size_t room = 64) {
  std::string buffer(room, 'x');
  return number_by_share(visible, gpus, buffer) ? buffer.c_str() : "stays";
}

TEST(Numbering, ANumberIsTheSharesOwn) {
  EXPECT_EQ(numbered("0"), "GPU-a");
  EXPECT_EQ(numbered("2,0"), "GPU-c,GPU-a");
  EXPECT_EQ(numbered(" 1 , 2 "), "GPU-b,GPU-c");
}

TEST(Numbering, ANumberThatTheShareLacksHidesItAndTheRest) {
  EXPECT_EQ(numbered("1,3,0"), "GPU-b");
  EXPECT_EQ(numbered("0,-1,1"), "GPU-a");
  for (const char* none : {"3", "-1", "", "99999999999999999999,0", "1024"}) EXPECT_EQ(numbered(none), "-1") << none;
}

TEST(Numbering, OtherNamesOfGpusAreKept) {
  for (const char* other : {"GPU-a", "GPU-a,GPU-b", "0,GPU-b", "MIG-1", "all", "1.5", "1,,2"})
    EXPECT_EQ(numbered(other), "stays") << other;
}

TEST(Numbering, AListThatDoesNotFitIsNotCut) { EXPECT_EQ(numbered("0,1", "GPU-a,GPU-b", 8), "stays"); }

std::string spelled(std::string_view visible, std::size_t room = 64) {
  std::string buffer(room, 'x');
  return spell_as_share(visible, "GPU-ab12,GPU-ab34,GPU-cd56", buffer) ? buffer.c_str() : "stays";
}

TEST(Spelling, AUuidInAnotherCaseIsWrittenAsTheDriverWritesIt) {
  EXPECT_EQ(spelled("GPU-AB34"), "GPU-ab34");
  EXPECT_EQ(spelled("gpu-Cd,GPU-ab12"), "GPU-cd,GPU-ab12") << "a beginning stays one";
  EXPECT_EQ(spelled(" GPU-CD56 , 0,"), "GPU-cd56,0,");
  EXPECT_EQ(spelled("GPU-EF78,GPU-CD56"), "GPU-EF78,GPU-cd56") << "a GPU that the share lacks is the driver's to judge";
}

TEST(Spelling, AUniqueOrAmbiguousUuidIsKept) {
  for (const char* other : {"", "GPU-ab12", "GPU-ab", "GPU-AB", "GPU-", "0,1", "MIG-AB", "GPU-EF78", "all", ",,"})
    EXPECT_EQ(spelled(other), "stays") << other;
  EXPECT_EQ(spelled("GPU-AB34,GPU-CD56", 12), "stays") << "a list that does not fit is not cut";
}

std::string cut(std::string_view visible, std::size_t room = 64) {
  std::string buffer(room, 'x');
  return cut_to_share(visible, "GPU-ab12,GPU-cd56", buffer) ? buffer.c_str() : "stays";
}

TEST(Cutting, AForeignGpuHidesItAndTheRest) {
  EXPECT_EQ(cut("GPU-9999"), "-1");
  EXPECT_EQ(cut("GPU-ab12,GPU-9999,GPU-cd56"), "GPU-ab12");
  EXPECT_EQ(cut("GPU-9999,GPU-ab12"), "-1");
  for (const char* none : {"all", "GPU-", "GPU", "none", "-1", "GPU-ab12x"}) EXPECT_EQ(cut(none), "-1") << none;
}

TEST(Cutting, TheSharesGpusAreKept) {
  for (const char* own : {"GPU-ab12", "GPU-cd56,GPU-ab12", "GPU-ab", "gpu-AB12", "MIG-1", "GPU-ab12,MIG-1"})
    EXPECT_EQ(cut(own), "stays") << own;
}

TEST(Cutting, ANumberBesideAUuidIsTheSharesToo) {
  EXPECT_EQ(cut("1,GPU-ab12"), "GPU-cd56,GPU-ab12");
  EXPECT_EQ(cut("GPU-ab12,7,GPU-cd56"), "GPU-ab12");
}

TEST(Cutting, AListThatDoesNotFitIsNotCut) { EXPECT_EQ(cut("1,GPU-ab12", 10), "stays"); }

}  // namespace
}  // namespace headgate::grant
