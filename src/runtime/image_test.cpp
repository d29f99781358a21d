#include "runtime/image.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace headgate::runtime {
namespace {

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

ElfFacts with_loader(const std::string& loader) { return {.is_elf = true, .is_ours = true, .interpreter = loader}; }

constexpr const char* kGlibcLoader = "/lib64/ld-linux-x86-64.so.2";

TEST(ElfFile, SaysWhichLoaderItNeeds) {
  const ElfFacts facts = elf_facts(bytes_of("/proc/self/exe"));
  EXPECT_TRUE(facts.is_elf && facts.is_ours);
  EXPECT_TRUE(facts.interpreter.contains("ld-linux")) << facts.interpreter;
}

TEST(ElfFile, MayBeCutOffAnywhere) {
  const std::string whole = bytes_of("/proc/self/exe").substr(0, 4096);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const ElfFacts facts = elf_facts(std::string_view(whole).substr(0, size));
    EXPECT_EQ(facts.is_elf, size >= 4);
  }
  EXPECT_EQ(elf_facts("#!/bin/sh\n"), ElfFacts{});
}

TEST(ElfFile, OfAnotherMachineIsTold) {
  std::string whole = bytes_of("/proc/self/exe").substr(0, 4096);
  whole[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(elf_facts(whole).is_ours);
}

TEST(Glibc, SaysItsVersion) {
  using namespace std::literals;
  EXPECT_EQ(glibc_version("\0..GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright"sv), "2.36");
  EXPECT_EQ(glibc_version("GNU C Library stable release version 2.12, by Roland"), "2.12");
  EXPECT_EQ(glibc_version("musl libc"), "");
}

TEST(Image, OfGlibcCanLoadTheLimiter) {
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = "2.17"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .has_musl = true, .glibc = "2.36"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(""), .glibc = "2.36"}), "") << "a static init may start others";
  EXPECT_EQ(limiter_trouble({.program = std::nullopt, .glibc = "2.36"}), "");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = ""}), "") << "a version that is not said";
}

TEST(Image, ThatCannotLoadTheLimiterSaysWhy) {
  EXPECT_EQ(limiter_trouble({.program = with_loader("/lib/ld-musl-x86_64.so.1"), .has_musl = true, .glibc = "2.36"}),
            "its first program is built for musl, and the limiter for glibc");
  EXPECT_EQ(limiter_trouble({.program = ElfFacts{}, .has_musl = true}),
            "it is built for musl, and the limiter for glibc");
  EXPECT_EQ(limiter_trouble({.program = with_loader(kGlibcLoader), .glibc = "2.12"}),
            "its glibc is 2.12, and the limiter needs 2.17");
  EXPECT_EQ(limiter_trouble({.program = with_loader("")}), "its first program is static, and it has no C library");
  EXPECT_EQ(limiter_trouble({.program = ElfFacts{.is_elf = true}, .glibc = "2.36"}),
            "its first program is for another machine, or has 32 bits");
  EXPECT_EQ(limiter_trouble({.program = with_loader("/nix/store/x-glibc-2.40/lib/ld-linux-x86-64.so.2")}),
            "its loader is NixOS's, which reads another list than /etc/ld.so.preload");
}

}  // namespace
}  // namespace headgate::runtime
