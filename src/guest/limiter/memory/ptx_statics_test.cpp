#include "guest/limiter/memory/ptx_statics.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using headgate::limiter::static_bytes;

std::uint64_t declared(const std::string& declarations) {
  const std::string ptx =
      ".version 8.0\n.target sm_90\n.address_size 64\n" + declarations + ".visible .entry k() { ret; }\n";
  return static_bytes(ptx.c_str());
}

TEST(StaticBytes, SumAModulesDeclarations) {
  EXPECT_EQ(declared(""), 0u);
  EXPECT_EQ(declared(".visible .global .align 8 .b8 grid[4294967296];\n"), 4294967296u);
  EXPECT_EQ(declared(".global .align 4 .f32 a[10][20];\n.global .u64 b;\n"), 808u);
  EXPECT_EQ(declared(".global .align 16 .v4 .f32 quads[8];\n"), 128u);
  EXPECT_EQ(declared(".global\t.align 4 .b32 table[3] = {1, 2, 3};\n.global .b16 x[2];"), 16u);
}

TEST(StaticBytes, TakeEveryFormOfADeclaration) {
  EXPECT_EQ(declared(".global .b8 hex[0x40000000];\n.global .b8 of_c[0XfFU];\n"), (1u << 30) + 255);
  EXPECT_EQ(declared(".global .u32 one, two[4], three[2][3] = {{1, 2, 3}, {4, 5, 6}}, four;\n"), 48u);
  EXPECT_EQ(declared(".global .b32 table[] = {1, 2, 3};\n.global .b16 rows[][2] = {{1, 2}, {3, 4}};\n"), 20u);
  EXPECT_EQ(declared(".global .v4 .f32 quad, quads[8];\n"), 144u);
  EXPECT_EQ(declared(".global .bf16 half[8];\n.global .f16x2 two[8];\n.global .tf32 rounded[8];\n"), 80u);
  EXPECT_EQ(declared(".global .attribute(.managed) .align 16 .b128 wide[2], w2;\n"), 48u);
}

TEST(StaticBytes, IgnoreUsesOfTheStateSpace) {
  EXPECT_EQ(declared(".extern .global .align 4 .b8 elsewhere[1048576];\n"), 0u);
  EXPECT_EQ(declared(".visible .entry k2(.param .u64 .ptr .global .align 4 p_12)\n{\n"
                     "ld.global.u32 %r1, [%rd4096];\ncvta.to.global.u64 %rd1, %rd2;\nret;\n}\n"),
            0u);
}

TEST(StaticBytes, IgnoreComments) {
  EXPECT_EQ(declared("// .global .b8 gone[1048576];\n/* .global .b8 gone[1048576];\n*/ .global .b8 here[2];\n"), 2u);
  EXPECT_EQ(declared(".global .b8 a[2] /* , b[4] */, // c[8];\n d[16];\n"), 18u);
  EXPECT_EQ(static_bytes("/* .global .b8 x[4];"), 0u);
  EXPECT_EQ(static_bytes("//"), 0u);
  EXPECT_EQ(declared(".pragma \"/* .global .b8 gone[4];\";\n.global .b8 here[2];\n"), 2u);
}

TEST(StaticBytes, AreUnknownForOtherImages) {
  EXPECT_EQ(static_bytes(nullptr), 0u);
  EXPECT_EQ(static_bytes("\x7f"
                         "ELF .global .b8 x[4096];"),
            0u);
  EXPECT_EQ(static_bytes("\x50\xed\x55\xba .global .b8 x[4096];"), 0u);
}

TEST(StaticBytes, SaturateAndEndWithTheText) {
  EXPECT_EQ(declared(".global .b64 x[18446744073709551615];\n"), ~0ull);
  EXPECT_EQ(declared(".global .b8 x[99999999999999999999999];\n"), ~0ull);
  EXPECT_EQ(static_bytes(".global"), 0u);
  EXPECT_EQ(static_bytes(".global .b8 x["), 1u);
  EXPECT_EQ(static_bytes(".global .align"), 1u);
}

}  // namespace
