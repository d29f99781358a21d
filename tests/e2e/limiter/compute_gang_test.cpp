// Kernels that spin for each other on two streams, threads, processes or GPUs, under one share's compute limit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim_program.hpp"
#include "tenants/spin_pairs.hpp"

namespace headgate::e2e {
namespace {

struct Pair {
  tenant::SpinPair pair;
  unsigned percent;
};

class SpinningPairs : public testing::TestWithParam<Pair> {};

TEST_P(SpinningPairs, MeetAtEveryLimit) {
  const Directory directory;
  Program program(tenant::spin_words(HEADGATE_TENANTS "/tenant-spin", GetParam().pair),
                  {{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES},
                   {"HEADGATE_SIM_DIR", directory.path() + "/node"},
                   {"HEADGATE_SIM_PROFILE", GetParam().pair.profile},
                   {"LD_PRELOAD", HEADGATE_LIMITER},
                   {"HEADGATE_RUNTIME_DIR", directory.path() + "/run"},
                   {"HEADGATE_SHARE", "pairs"},
                   {"HEADGATE_MEM", "1GiB"},
                   {"HEADGATE_COMPUTE", std::to_string(GetParam().percent) + "%"}});
  // 16 s at 5 % on an idle machine.
  const std::string line = program.line(std::chrono::seconds(180));
  EXPECT_EQ(program.wait(), 0) << line << program.errors();
  EXPECT_NE(line.find("\"ok\":true"), std::string::npos) << line;
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const unsigned percent : tenant::kSpinPercents)
    for (const tenant::SpinPair& pair : tenant::kSpinPairs) pairs.push_back({pair, percent});
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(Limits, SpinningPairs, testing::ValuesIn(all_pairs()));

}  // namespace
}  // namespace headgate::e2e
