#include "guest/bare/elf.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace {

using namespace headgate::bare;

TEST(Elf, FindsTheRealLookUpFunctionWithoutCallingIt) {
  Object libc;
  ASSERT_TRUE(object_named("libc.so.6", libc));
  Object holder = libc;
  void* found = symbol_in(libc, "dlsym");
  if (found == nullptr && object_named("libdl.so.2", holder)) found = symbol_in(holder, "dlsym");
  EXPECT_EQ(found, dlsym(RTLD_DEFAULT, "dlsym"));
}

TEST(Elf, DistinguishesUsedFromDefinedNames) {
  Object self;
  ASSERT_TRUE(object_at(reinterpret_cast<void*>(&object_at), self));
  EXPECT_EQ(symbol_in(self, "getenv"), nullptr);
  Object libc;
  ASSERT_TRUE(object_named("libc.so.6", libc));
  EXPECT_EQ(symbol_in(libc, "getenv"), reinterpret_cast<void*>(&getenv));
  EXPECT_EQ(symbol_in(libc, "no_such_name_at_all"), nullptr);
}

TEST(Elf, FindsTheObjectOfAnAddress) {
  Object found;
  ASSERT_TRUE(object_at(reinterpret_cast<void*>(&getenv), found));
  EXPECT_STREQ(soname_of(found), "libc.so.6");
  EXPECT_FALSE(object_at(nullptr, found));
}

TEST(Elf, SearchesEveryLoadedObject) {
  int objects = 0;
  each_object([&](const Object& object) {
    symbol_in(object, "malloc");
    ++objects;
    return false;
  });
  EXPECT_GE(objects, 3);
}

}  // namespace
