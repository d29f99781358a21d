// Kernels on two GPUs that spin for each other, under one share's compute limit.
#include <gtest/gtest.h>

#include <string>

#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

class TwoGpus : public testing::TestWithParam<const char*> {};

TEST_P(TwoGpus, kernels_that_wait_for_each_other_meet_at_every_limit) {
  const Directory directory;
  Program program({HEADGATE_TENANTS "/tenant-spin", "--pair", "gpus", "--rounds", "6", "--timeout-ms", "30000"},
                  {{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES},
                   {"HEADGATE_SIM_DIR", directory.path() + "/node"},
                   {"HEADGATE_SIM_PROFILE", "l40s-x2"},
                   {"LD_PRELOAD", HEADGATE_LIMITER},
                   {"HEADGATE_RUNTIME_DIR", directory.path() + "/run"},
                   {"HEADGATE_SHARE", "gang"},
                   {"HEADGATE_MEM", "1GiB"},
                   {"HEADGATE_COMPUTE", GetParam()}});
  const std::string line = program.line();
  EXPECT_EQ(program.wait(), 0) << line << program.errors();
  EXPECT_NE(line.find("\"ok\":true"), std::string::npos) << line;
}

INSTANTIATE_TEST_SUITE_P(Limits, TwoGpus, testing::Values("5%", "25%", "50%", "95%", "100%"));

}  // namespace
}  // namespace headgate::e2e
