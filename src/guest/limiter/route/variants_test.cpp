// Checks the versions in the table of names: each hooked function that cuGetProcAddress can return has one.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "guest/abi/names.hpp"

namespace {

using namespace headgate::abi;

TEST(Variants, EveryHookedFunctionIsKnownByNameAndVersion) {
  for (const Name& name : cuda_names()) {
    if (name.kind == Kind::pass || name.kind == Kind::data || !name.has_signature) continue;
    EXPECT_NE(name.since, 0) << name.name;
  }
}

TEST(Variants, BaseNameHasNoNumberAndNoSuffix) {
  EXPECT_EQ(base_of("cuMemAlloc"), "cuMemAlloc");
  EXPECT_EQ(base_of("cuMemAlloc_v2"), "cuMemAlloc");
  EXPECT_EQ(base_of("cuMemcpyHtoD_v2_ptds"), "cuMemcpyHtoD");
  EXPECT_EQ(base_of("cuLaunchKernel_ptsz"), "cuLaunchKernel");
  EXPECT_EQ(base_of("cu"), "cu");
}

TEST(Variants, LaterVariantOfABaseIsNewer) {
  std::map<std::string, int> last;
  for (const Name& name : cuda_names()) {
    if (name.since == 0) continue;
    int& before = last[std::string(base_of(name.name)) + (is_per_thread(name.name) ? " per thread" : "")];
    EXPECT_LT(before, name.since) << name.name;
    before = name.since;
  }
}

TEST(Variants, NamesFromAPrefixAreAllThatBeginWithIt) {
  std::size_t count = 0;
  for (const Name& name : cuda_names()) count += name.name.starts_with("cuMemFree") ? 1 : 0;
  ASSERT_EQ(cuda_names_from("cuMemFree").size(), count);
  for (const Name& name : cuda_names_from("cuMemFree")) EXPECT_TRUE(name.name.starts_with("cuMemFree")) << name.name;
  EXPECT_TRUE(cuda_names_from("cuZ").empty());
}

}  // namespace
