// How locked and application clocks change the duration of kernels.
#include "sim/driver/test_program.hpp"
#include "sim/node.hpp"

namespace headgate::sim {
namespace {

TEST_F(Driver, ALockedClockSlowsKernelsInProportion) {
  const Profile& profile = *find_profile("h200");
  ASSERT_TRUE(create_node(directory_, profile));
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node) << node.error().message;
  const auto run_10_ms = [] {
    Program p;
    const CUstream stream = p.stream();
    p.run_us(10'000, stream);
    OK(p.cu.cuStreamSynchronize(stream));
  };
  std::uint64_t busy_ns = 0;
  const auto busy_since = [&] { return truth().busy_ns - std::exchange(busy_ns, truth().busy_ns); };
  NvmlDevice& set = (*node)->state().nvml[0];
  EXPECT_EQ(run(run_10_ms), 0);
  EXPECT_EQ(busy_since(), 10'000'000u);
  set.sm_min_mhz = 200;
  set.sm_max_mhz = profile.sm_clock_max_mhz / 2;
  EXPECT_EQ(run(run_10_ms), 0);
  EXPECT_EQ(busy_since(), 20'000'000u) << "half the clock, twice the time";
  set.sm_min_mhz = set.sm_max_mhz = 0;
  set.application_sm_mhz = profile.sm_clock_max_mhz / 4;
  EXPECT_EQ(run(run_10_ms), 0);
  EXPECT_EQ(busy_since(), 40'000'000u);
  set.sm_min_mhz = profile.sm_clock_max_mhz / 2;
  set.sm_max_mhz = profile.sm_clock_max_mhz;
  EXPECT_EQ(run(run_10_ms), 0);
  EXPECT_EQ(busy_since(), 20'000'000u) << "a locked range holds against the application clock";
  set.sm_min_mhz = set.sm_max_mhz = set.application_sm_mhz = 0;
  EXPECT_EQ(run(run_10_ms), 0);
  EXPECT_EQ(busy_since(), 10'000'000u);
}

}  // namespace
}  // namespace headgate::sim
