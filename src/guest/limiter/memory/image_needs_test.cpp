#include "guest/limiter/memory/image_needs.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace headgate::limiter {
namespace {

struct Section {
  std::string name;
  std::uint32_t type;
  std::uint64_t flags, bytes;
};

// Builds a cubin as nvcc lays it out: the section headers' names and sizes, without contents.
std::string cubin(const std::vector<Section>& sections) {
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> headers(1);
  for (const Section& section : sections) {
    Elf64_Shdr header{};
    header.sh_name = static_cast<Elf64_Word>(names.size());
    header.sh_type = section.type;
    header.sh_flags = section.flags;
    header.sh_size = section.bytes;
    names += section.name + '\0';
    headers.push_back(header);
  }
  Elf64_Shdr strings{};
  strings.sh_type = SHT_STRTAB;
  strings.sh_offset = sizeof(Elf64_Ehdr);
  strings.sh_size = names.size();
  headers.push_back(strings);
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_machine = 190;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shoff = sizeof head + names.size();
  head.e_shnum = static_cast<Elf64_Half>(headers.size());
  head.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + names +
         std::string(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof headers[0]);
}

std::string with_array(std::uint64_t bytes) {
  return cubin({{".text.k", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 1024},
                {".nv.shared.k", SHT_NOBITS, SHF_ALLOC, 49152},
                {".nv.constant0.k", SHT_PROGBITS, SHF_ALLOC, 352},
                {".nv.global.init", SHT_PROGBITS, SHF_ALLOC, 48},
                {".debug_line", SHT_PROGBITS, 0, 1 << 20},
                {".nv.global", SHT_NOBITS, SHF_ALLOC, bytes}});
}

std::string bytes_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::string entry(std::uint16_t kind, unsigned architecture, const std::string& payload, std::uint64_t flags = 1,
                  std::uint64_t full_bytes = 0) {
  std::string head = bytes_of(kind) + bytes_of(std::uint16_t{0x101}) + bytes_of(std::uint32_t{64}) +
                     bytes_of(std::uint64_t{payload.size()});
  const std::uint32_t packed = full_bytes == 0 ? 0 : static_cast<std::uint32_t>(payload.size());
  head += bytes_of(packed) + std::string(4, '\0') + bytes_of(std::uint16_t{7}) + bytes_of(std::uint16_t{1}) +
          bytes_of(architecture);
  head += std::string(8, '\0') + bytes_of(flags) + std::string(8, '\0') + bytes_of(full_bytes);
  return head + payload;
}

std::string container(const std::vector<std::string>& entries) {
  std::string all;
  for (const std::string& each : entries) all += each;
  return bytes_of(std::uint32_t{0xba55ed50}) + bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{16}) +
         bytes_of(std::uint64_t{all.size()}) + all;
}

const std::string kPtxOf4096(".version 8.0\n.target sm_80\n.global .b8 x[4096];\n", 49);

TEST(ImageNeeds, SumTheStaticSectionsOfACubin) {
  const ImageNeeds needs = needs_of_image(with_array(4ull << 30).c_str(), 90);
  EXPECT_TRUE(needs.told);
  EXPECT_EQ(needs.static_bytes, (4ull << 30) + 48);
  EXPECT_EQ(needs.code_bytes, 1024u + 352u) << "a kernel's parameters come with its code";
}

TEST(ImageNeeds, ChooseTheEntryThatTheDriverChooses) {
  const std::string all = container({entry(1, 80, kPtxOf4096), entry(2, 90, with_array(1 << 20)),
                                     entry(2, 86, with_array(2 << 20)), entry(2, 80, with_array(3 << 20))});
  const auto bytes = [&](unsigned architecture) { return needs_of_image(all.c_str(), architecture).static_bytes; };
  EXPECT_EQ(bytes(90), (1u << 20) + 48);
  EXPECT_EQ(bytes(89), (2u << 20) + 48);
  EXPECT_EQ(bytes(80), (3u << 20) + 48);
  EXPECT_EQ(bytes(100), 4096u);
  EXPECT_FALSE(needs_of_image(all.c_str(), 75).told);
}

TEST(ImageNeeds, FollowAWrapperToItsContainers) {
  const std::string one = container({entry(2, 90, with_array(1 << 20))}), two = container({entry(1, 80, kPtxOf4096)});
  struct {
    std::uint32_t magic = 0x466243b1, version = 1;
    const void* container = nullptr;
    const void* const* list = nullptr;
  } wrapper;
  wrapper.container = one.data();
  EXPECT_EQ(needs_of_image(&wrapper, 90).static_bytes, (1u << 20) + 48);
  const void* list[] = {one.data(), two.data(), nullptr};
  wrapper.version = 2;
  wrapper.list = list;
  EXPECT_EQ(needs_of_image(&wrapper, 90).static_bytes, (1u << 20) + 48 + 4096);
}

// Makes a block of literals only, as LZ4 packs data without repetition.
std::string literals(const std::string& whole) {
  std::string block = "\xf0";
  std::size_t rest = whole.size() - 15;
  for (; rest >= 255; rest -= 255) block += '\xff';
  return block + static_cast<char>(rest) + whole;
}

TEST(ImageNeeds, UnpackLz4) {
  const std::string image = with_array(3ull << 30);
  const std::string text(kPtxOf4096.c_str(), kPtxOf4096.size() + 1);
  const std::string all = container(
      {entry(2, 90, literals(image), 0x2001, image.size()), entry(1, 80, literals(text), 0x2001, text.size())});
  EXPECT_TRUE(needs_of_image(all.c_str(), 90).told);
  EXPECT_EQ(needs_of_image(all.c_str(), 90).static_bytes, (3ull << 30) + 48);
  EXPECT_TRUE(needs_of_image(all.c_str(), 80).told);
  EXPECT_EQ(needs_of_image(all.c_str(), 80).static_bytes, 4096u);
}

TEST(ImageNeeds, CountThePackedImagesUnpackedSizeAtLeast) {
  const std::string image = literals(with_array(1 << 20));
  const std::vector<std::string> untold = {entry(2, 90, "xxxx", 0x8001, 123456), entry(2, 90, "xxxx", 0x2001, 123456),
                                           entry(2, 90, image.substr(0, 99), 0x2001, 123456),
                                           entry(2, 90, image, 0x2001, 123456)};
  for (const std::string& each : untold) {
    const std::string all = container({each});
    const ImageNeeds needs = needs_of_image(all.c_str(), 90);
    EXPECT_FALSE(needs.told);
    EXPECT_EQ(needs.code_bytes, 123456u);
  }
  const std::string endless = container({entry(2, 90, image, 0x2001, ~0ull)});
  EXPECT_FALSE(needs_of_image(endless.c_str(), 90).told);
}

TEST(ImageNeeds, StayWithinTheirInput) {
  std::string cut = with_array(1 << 20);
  auto* const head = reinterpret_cast<Elf64_Ehdr*>(cut.data());
  head->e_shoff = 1ull << 46;
  EXPECT_FALSE(needs_of_image(cut.c_str(), 90).told);
  head->e_shoff = ~0ull;
  EXPECT_FALSE(needs_of_image(cut.c_str(), 90).told);
  std::string open = container({entry(2, 90, "")});
  std::uint64_t far = 1ull << 46;
  std::memcpy(open.data() + 24, &far, sizeof far);
  EXPECT_FALSE(needs_of_image(open.c_str(), 90).told);
  EXPECT_FALSE(needs_of_image(nullptr, 90).told);
}

TEST(ImageNeeds, OfAFileAreThoseOfItsImage) {
  const std::string path = testing::TempDir() + "headgate-image-needs";
  for (const std::string& image : {with_array(5 << 20), kPtxOf4096}) {
    std::ofstream(path, std::ios::binary) << image;
    EXPECT_EQ(needs_of_file(path.c_str(), 90).static_bytes, needs_of_image(image.c_str(), 90).static_bytes);
  }
  EXPECT_FALSE(needs_of_file((path + "-none").c_str(), 90).told);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace headgate::limiter
