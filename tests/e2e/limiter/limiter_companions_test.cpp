// A share's limits hold next to other preloaded libraries: allocators, sanitizers, profilers, in either order.
#include <gtest/gtest.h>
#include <unistd.h>

#include "limiter_run.hpp"

namespace {

using namespace headgate::e2e;

struct Companion {
  const char *name, *library;
};
void PrintTo(const Companion& companion, std::ostream* out) { *out << companion.name; }

class Beside : public testing::TestWithParam<std::tuple<Companion, bool, bool>> {
 protected:
  // The limit is 1 MiB: one request fits, one does not, one fits again.
  Outcome allocate() const {
    const auto& [companion, before, linked] = GetParam();
    const Runtime runtime;
    Tenant tenant;
    tenant.environment = {{"HEADGATE_MEM", "1MiB"}, {"ASAN_OPTIONS", "detect_leaks=0"}};
    tenant.linked = linked;
    (before ? tenant.preload_before : tenant.preload_after) = companion.library;
    return runtime.run(tenant, {"alloc", "1000000", "100000", "48576"});
  }
};

TEST_P(Beside, AShareHoldsAsAlone) {
  if (std::string(std::get<0>(GetParam()).name) == "Asan" && ::access("/proc/self/environ", R_OK) != 0) {
    GTEST_SKIP() << "the sanitizer reads its options from /proc";
  }
  const Outcome outcome = allocate();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("ready: 0\nalloc 1000000: 0\nalloc 100000: 2\nalloc 48576: 0\n", 0), 0U)
      << outcome.out << outcome.err;
  const auto& [companion, before, linked] = GetParam();
  // A library preloaded before us is called before us, and sees all of the program's requests.
  if (std::string(companion.name) == "Profiler" && before) {
    EXPECT_NE(outcome.err.find("profiler: 3 allocations"), std::string::npos) << outcome.err;
  }
}

std::string name_of(const testing::TestParamInfo<Beside::ParamType>& tested) {
  const auto& [companion, before, linked] = tested.param;
  return std::string(companion.name) + (before ? "BeforeUs" : "AfterUs") + (linked ? "Linked" : "LookingUp");
}
INSTANTIATE_TEST_SUITE_P(Companions, Beside,
                         testing::Combine(testing::Values(Companion{"Profiler", LIMITER_TESTS_DIR "/libprofiler.so"},
                                                          Companion{"Jemalloc", JEMALLOC}),
                                          testing::Bool(), testing::Bool()),
                         name_of);
// The sanitizer's runtime ends a program if it is not the first library, so it is only tested first.
INSTANTIATE_TEST_SUITE_P(Sanitizers, Beside,
                         testing::Combine(testing::Values(Companion{"Asan", ASAN_RUNTIME}), testing::Values(true),
                                          testing::Bool()),
                         name_of);

}  // namespace
