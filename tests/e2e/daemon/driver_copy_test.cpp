// A program that brings the driver's library along under another file name is held like any other.
#include <gtest/gtest.h>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

// Alone, and beside the driver's own library, to which it is another one for the dynamic linker.
TEST(DriverCopy, UnderAnotherFileNameItLeadsToTheSameHooks) {
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
