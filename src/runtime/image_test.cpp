#include "runtime/image.hpp"

#include <gtest/gtest.h>

namespace headgate::runtime {
namespace {

ElfFile with_loader(const std::string& loader) {
  return {.is_64_bit = true, .machine = own_machine(), .interpreter = loader, .functions = {}};
}

constexpr const char* kGlibcLoader = "/lib64/ld-linux-x86-64.so.2";

TEST(Glibc, NamesItsVersion) {
  using namespace std::literals;
  EXPECT_EQ(glibc_version("\0..GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright"sv), "2.36");
  EXPECT_EQ(glibc_version("GNU C Library stable release version 2.12, by Roland"), "2.12");
  EXPECT_EQ(glibc_version("GNU C Library stable release version 2.3"), "") << "cut off";
  EXPECT_EQ(glibc_version("musl libc"), "");
}

TEST(Image, CanLoadTheLimiterWithGlibc) {
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = "2.17"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .has_musl = true, .glibc = "2.36"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(""), .glibc = "2.36"}), "") << "a static init may start others";
  EXPECT_EQ(limiter_trouble({.program = std::nullopt, .glibc = "2.36"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = ""}), "") << "a version that is not said";
}

TEST(Image, ReportsWhyItCannotLoadTheLimiter) {
  EXPECT_EQ(limiter_trouble({.program = with_loader("/lib/ld-musl-x86_64.so.1"), .has_musl = true, .glibc = "2.36"}),
            "its first program is built for musl, and the limiter for glibc");
  EXPECT_EQ(limiter_trouble({.program = std::nullopt, .has_musl = true}),
            "it is built for musl, and the limiter for glibc");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = "2.12"}),
            "its glibc is 2.12, and the limiter needs 2.17");
  EXPECT_EQ(limiter_trouble({.program = with_loader("")}), "its first program is static, and it has no C library");
  EXPECT_EQ(limiter_trouble({.program = ElfFile{}, .glibc = "2.36"}),
            "its first program is for another machine, or has 32 bits");
  EXPECT_EQ(limiter_trouble({.program = with_loader("/nix/store/x-glibc-2.40/lib/ld-linux-x86-64.so.2")}),
            "its loader is NixOS's, which reads another list than /etc/ld.so.preload");
}

}  // namespace
}  // namespace headgate::runtime
