// A program that brings a copy of the driver's library under another file name is limited like any other.
#include <gtest/gtest.h>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

// Alone, and next to the driver's own library, which the dynamic linker treats as a different one.
TEST(DriverCopy, ARenamedCopyLeadsToTheSameHooks) {
  const Cli cli;
  for (const char* first : {"", "BYPASS_FIRST=libcuda.so.1 "}) {
    const Said said =
        cli.shell("cp $SIM/libcuda.so.1 $D/mine.so; printf 'alloc 3221225472\\nalloc 67108864\\ninfo\\n' | " +
                  std::string(first) + "$H run --sim --mem 2GiB -- " BYPASS_PROGRAM " $D/mine.so");
    EXPECT_TRUE(said.out.starts_with("ready 0\n2\n0\n") && said.out.ends_with(" of 2147483648\n"))
        << first << said.out << said.err;
  }
}

}  // namespace
}  // namespace headgate::e2e
