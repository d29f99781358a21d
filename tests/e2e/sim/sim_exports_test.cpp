// What the simulator's libraries export: every name of the driver and NVML, and nothing else of ours.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

#include "guest/abi/names.hpp"

namespace headgate::sim {
namespace {

struct Library {
  explicit Library(const char* file)
      : handle(::dlopen((std::string(HEADGATE_SIM_LIBRARIES "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  void* handle;
};

// The names that an ELF library defines, and the libraries it needs, from its own dynamic section.
struct Dynamic {
  std::vector<std::string> defined, needed;
  std::string soname;
};

Dynamic read_dynamic(void* handle) {
  link_map* map = nullptr;
  Dynamic made;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return made;
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
  }
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) made.needed.emplace_back(strings + entry->d_un.d_val);
    if (entry->d_tag == DT_SONAME) made.soname = strings + entry->d_un.d_val;
  }
  if (gnu_hash == nullptr) return made;
  // The hash table lists all defined symbols, from index gnu_hash[1] on; the last of a chain has its lowest bit set.
  const std::uint32_t buckets = gnu_hash[0], first = gnu_hash[1];
  const std::uint32_t* bucket = gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* chain = bucket + buckets;
  for (std::uint32_t b = 0; b < buckets; ++b) {
    for (std::uint32_t i = bucket[b]; i >= first; ++i) {
      made.defined.emplace_back(strings + symbols[i].st_name);
      if ((chain[i - first] & 1) != 0) break;
    }
  }
  return made;
}

void expect_clean(const Dynamic& library, const char* soname, const char* prefix) {
  EXPECT_GT(library.defined.size(), 300U) << "the symbol table could not be read";
  EXPECT_FALSE(library.needed.empty());
  EXPECT_EQ(library.soname, soname);
  for (const std::string& name : library.defined) EXPECT_TRUE(name.starts_with(prefix)) << name;
  for (const std::string& needed : library.needed) {
    EXPECT_FALSE(needed.starts_with("libstdc++") || needed.starts_with("libgcc_s"))
        << "a program with another C++ run time would meet ours: " << needed;
  }
}

// The names of the library's own that its relocations look up by name, so that a preloaded library of the same names
// answers.
std::vector<std::string> interposable(void* handle) {
  link_map* map = nullptr;
  std::vector<std::string> made;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return {"no link map"};
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  ElfW(Addr) tables[2] = {};
  std::size_t bytes[2] = {};
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELA) tables[0] = entry->d_un.d_ptr;
    if (entry->d_tag == DT_RELASZ) bytes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_JMPREL) tables[1] = entry->d_un.d_ptr;
    if (entry->d_tag == DT_PLTRELSZ) bytes[1] = entry->d_un.d_val;
  }
  std::size_t seen = 0;
  for (int i = 0; i < 2; ++i) {
    const auto* relocations = reinterpret_cast<const ElfW(Rela)*>(tables[i]);
    for (std::size_t r = 0; r < bytes[i] / sizeof(ElfW(Rela)); ++r, ++seen) {
      const std::size_t index = ELF64_R_SYM(relocations[r].r_info);
      if (index != 0 && symbols[index].st_shndx != SHN_UNDEF) made.emplace_back(strings + symbols[index].st_name);
    }
  }
  if (seen < 10) made.emplace_back("the relocations could not be read");
  return made;
}

TEST(Exports, WhatTheSimulatorCallsOfItselfNeverReachesAPreloadedLimiter) {
  for (const char* file : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    const Library library(file);
    ASSERT_NE(library.handle, nullptr) << ::dlerror();
    EXPECT_EQ(interposable(library.handle), std::vector<std::string>{}) << file;
  }
}

TEST(Exports, TheDriverHasEveryNameThatARealOneHas) {
  const Library driver("libcuda.so.1");
  ASSERT_NE(driver.handle, nullptr) << ::dlerror();
  for (const abi::Name& name : abi::cuda_names()) {
    if (name.kind == abi::Kind::data) continue;
    EXPECT_NE(::dlsym(driver.handle, name.name.data()), nullptr) << name.name;
  }
  expect_clean(read_dynamic(driver.handle), "libcuda.so.1", "cu");
}

TEST(Exports, NvmlHasEveryNameThatARealOneHas) {
  const Library nvml("libnvidia-ml.so.1");
  ASSERT_NE(nvml.handle, nullptr) << ::dlerror();
  for (const abi::Name& name : abi::nvml_names())
    EXPECT_NE(::dlsym(nvml.handle, name.name.data()), nullptr) << name.name;
  expect_clean(read_dynamic(nvml.handle), "libnvidia-ml.so.1", "nvml");
}

TEST(Exports, AFunctionThatTheSimulatorDoesNotServeSaysSo) {
  const Library driver("libcuda.so.1");
  ASSERT_NE(driver.handle, nullptr) << ::dlerror();
  auto* unserved =
      reinterpret_cast<unsigned (*)(void*, void*)>(::dlsym(driver.handle, "cuEGLStreamConsumerDisconnect"));
  ASSERT_NE(unserved, nullptr);
  EXPECT_EQ(unserved(nullptr, nullptr), 801U);
}

}  // namespace
}  // namespace headgate::sim
