#include "base/elf.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace headgate {
namespace {

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(ElfFile, NamesTheLoaderItNeeds) {
  const auto file = read_elf("/bin/sh", false);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->is_64_bit);
  EXPECT_EQ(file->machine, own_machine());
  EXPECT_TRUE(file->interpreter.contains("ld-linux")) << file->interpreter;
}

TEST(ElfFile, MayBeTruncatedAnywhere) {
  const std::string whole = bytes_of("/bin/sh").substr(0, 4096);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string_view part = std::string_view(whole).substr(0, size);
    EXPECT_EQ(is_elf(part), size >= 4);
    const auto read = read_elf_bytes(part, "x", true);
    EXPECT_TRUE(size >= sizeof(Elf64_Ehdr) || read.error().message == "x is no ELF file");
  }
  EXPECT_FALSE(read_elf_bytes("#!/bin/sh\n", "x", false));
}

TEST(ElfFile, IsRecognisedAs32Bit) {
  std::string whole = bytes_of("/bin/sh").substr(0, 4096);
  whole[EI_CLASS] = ELFCLASS32;
  const auto read = read_elf_bytes(whole, "x", false);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->is_64_bit);
}

}  // namespace
}  // namespace headgate
