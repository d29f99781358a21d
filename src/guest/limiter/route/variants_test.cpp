// Checks the version table against the table of names: each hooked function that cuGetProcAddress can return has a row.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "guest/abi/names.hpp"

namespace {

using namespace headgate::abi;

struct Row {
  std::string base;
  int version;
  std::string name;
};

const Row kRows[] = {
#define CU_VARIANT(base, version, name) {#base, version, #name},
#include "guest/limiter/route/variants.def"
};

bool per_thread(std::string_view name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }

TEST(Variants, EveryGovernedFunctionCanBeRecognisedByNameAndVersion) {
  std::set<std::string> rows;
  for (const Row& row : kRows) rows.insert(row.name);
  for (const Name& name : cuda_names()) {
    if (name.kind == Kind::pass || name.kind == Kind::data || !name.has_signature || per_thread(name.name)) continue;
    EXPECT_TRUE(rows.contains(std::string(name.name))) << name.name;
  }
}

TEST(Variants, EachRowNamesAFunctionThatWeGovern) {
  for (const Row& row : kRows) {
    const Name* name = find_cuda(row.name);
    ASSERT_NE(name, nullptr) << row.name;
    EXPECT_NE(name->kind, Kind::pass) << row.name;
  }
}

TEST(Variants, TheNewestRowOfABaseIsTheLastSoThatALookUpEndsThere) {
  std::map<std::string, int> last;
  for (const Row& row : kRows) {
    EXPECT_LT(last[row.base], row.version) << row.name;
    last[row.base] = row.version;
  }
}

}  // namespace
