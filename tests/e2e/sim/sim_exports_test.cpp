// Exports of the simulator's libraries: the names of the driver release and of NVML, and nothing else.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "guest/abi/cuda.hpp"
#include "guest/abi/names.hpp"
#include "sim/node.hpp"

namespace headgate::sim {
namespace {

// Runs `check` in a separate process, because the library reads its node's release once, when it is loaded.
void in_a_process(const std::function<void()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    check();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "see above";
}

struct Library {
  explicit Library(const char* file)
      : handle(::dlopen((std::string(HEADGATE_SIM_LIBRARIES "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  void* handle;
};

// Names defined and libraries needed by an ELF library, from its dynamic section.
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

// Returns the library's symbols that its relocations look up by name, so that a preloaded library could replace them.
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

// A node with a profile of that CUDA version.
class SimRelease : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "headgate-release-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    Profile profile = *find_profile("h200");
    profile.cuda_version = GetParam();
    ASSERT_TRUE(create_node(directory_, profile));
    ::setenv("HEADGATE_SIM_DIR", directory_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HEADGATE_SIM_DIR");
    std::filesystem::remove_all(directory_);
  }
  std::string directory_;
};

struct NewFunction {
  int since;
  const char* base;    // name for cuGetProcAddress
  const char* entry;   // name for dlsym
  const char* former;  // what the base name meant before, since 11.4 at the latest; null: nothing
};

// From CUDA's release notes and headers: cudaTypedefs.h has the version in the name of a function's type.
constexpr NewFunction kNewFunctions[] = {
    {11020, "cuMemAllocAsync", "cuMemAllocAsync", nullptr},
    {11060, "cuLaunchKernelEx", "cuLaunchKernelEx", nullptr},
    {12000, "cuLibraryLoadData", "cuLibraryLoadData", nullptr},
    {12000, "cuGetProcAddress", "cuGetProcAddress_v2", "cuGetProcAddress"},
    {12030, "cuGraphConditionalHandleCreate", "cuGraphConditionalHandleCreate", nullptr},
    {12040, "cuGreenCtxCreate", "cuGreenCtxCreate", nullptr},
    {12050, "cuCtxCreate", "cuCtxCreate_v4", "cuCtxCreate_v3"},
    {12080, "cuCheckpointProcessLock", "cuCheckpointProcessLock", nullptr},
    {12080, "cuEventElapsedTime", "cuEventElapsedTime_v2", "cuEventElapsedTime"},
    {13000, "cuCtxGetDevice", "cuCtxGetDevice_v2", "cuCtxGetDevice"},
    {13000, "cuMemGetMemPool", "cuMemGetMemPool", nullptr},
};

TEST_P(SimRelease, HasTheFunctionsOfItsTimeOnly) {
  in_a_process([] {
    const Library driver("libcuda.so.1");
    ASSERT_NE(driver.handle, nullptr) << ::dlerror();
    auto* look_up = reinterpret_cast<abi::cuGetProcAddress_v2_t*>(::dlsym(driver.handle, "cuGetProcAddress_v2"));
    auto* look_up_first = reinterpret_cast<abi::cuGetProcAddress_t*>(::dlsym(driver.handle, "cuGetProcAddress"));
    ASSERT_NE(look_up_first, nullptr);
    EXPECT_EQ(look_up != nullptr, GetParam() >= 12000);
    for (const NewFunction& function : kNewFunctions) {
      const bool has = GetParam() >= function.since;
      SCOPED_TRACE(function.entry);
      void* exported = ::dlsym(driver.handle, function.entry);
      EXPECT_EQ(exported != nullptr, has);
      EXPECT_EQ(::dlsym(RTLD_DEFAULT, function.entry), nullptr);
      // With the newest CUDA version, the lookup returns the newest variant that this driver has.
      void* found = nullptr;
      abi::CUdriverProcAddressQueryResult status{};
      const abi::CUresult result = look_up != nullptr ? look_up(function.base, &found, 13000, 0, &status)
                                                      : look_up_first(function.base, &found, 13000, 0);
      const bool answers = has || function.former != nullptr;
      EXPECT_EQ(result, answers ? abi::CUDA_SUCCESS : abi::CUDA_ERROR_NOT_FOUND);
      EXPECT_EQ(found != nullptr, answers);
      if (has) {
        EXPECT_EQ(found, exported);
      } else if (function.former != nullptr) {
        EXPECT_EQ(found, ::dlsym(driver.handle, function.former));
      }
      if (look_up == nullptr) continue;
      EXPECT_EQ(status, answers ? abi::CU_GET_PROC_ADDRESS_SUCCESS : abi::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
      // The lookup fails for the versioned name, and for the base name with an earlier CUDA version.
      if (std::strcmp(function.base, function.entry) != 0 && !has) {
        EXPECT_EQ(look_up(function.entry, &found, 13000, 0, &status), abi::CUDA_ERROR_NOT_FOUND);
        EXPECT_EQ(found, nullptr);
        EXPECT_EQ(status, abi::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
      }
      if (function.former == nullptr && has) {
        EXPECT_EQ(look_up(function.base, &found, function.since - 10, 0, &status), abi::CUDA_ERROR_NOT_FOUND);
        EXPECT_EQ(status, abi::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
      }
    }
  });
}

std::string output_of(const std::string& command) {
  std::string text(200, 0);
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process";
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  return ::pclose(pipe) == 0 ? text : text + "(failed)";
}

// As a program that was built with newer headers than the node's driver: it starts, bound lazily or at once.
TEST_P(SimRelease, LetsAProgramWithALaterNameStart) {
  const std::string found = GetParam() >= 12040 ? "1" : "0";
  const std::string expected =
      "called " + std::to_string(static_cast<unsigned>(abi::CUDA_ERROR_NOT_INITIALIZED)) + ", found " + found + "\n";
  const std::string program = HEADGATE_TENANTS "/sim-later-names";
  for (const std::string how : {"", "LD_BIND_NOW=1 "})
    EXPECT_EQ(output_of(how + "LD_LIBRARY_PATH=" HEADGATE_SIM_LIBRARIES " " + program), expected) << how;
#ifdef HEADGATE_LIMITER
  EXPECT_EQ(output_of("HEADGATE_RUNTIME_DIR=" + directory_ +
                      " HEADGATE_MEM=1GiB LD_PRELOAD=" HEADGATE_LIMITER " LD_LIBRARY_PATH=" HEADGATE_SIM_LIBRARIES " " +
                      program),
            expected);
#endif
}

INSTANTIATE_TEST_SUITE_P(Of, SimRelease, testing::Values(11040, 11080, 12020, 12030, 12040, 12080, 13000),
                         [](const auto& test) { return "cuda" + std::to_string(test.param); });

std::set<std::string> names_in(const char* file, const char* prefix = "cu") {
  std::ifstream in(std::string(HEADGATE_TEST_DATA "/") + file);
  std::set<std::string> made;
  for (std::string name; std::getline(in, name);)
    if (name.starts_with(prefix) && !name.starts_with("cudbg")) made.insert(name);
  return made;
}

// The lists come from real libraries: Debian's 535 driver (CUDA 12.2), and CUDA 13.0's link stub plus the names that
// only that driver adds.
class SimLibraryNames : public SimRelease {};

TEST_P(SimLibraryNames, AreThoseOfTheRealLibrary) {
  std::set<std::string> real = names_in("libcuda-535.261.names");
  ASSERT_GT(real.size(), 500U);
  if (GetParam() >= 13000) real.merge(names_in("libcuda-13.0-stub.names"));
  in_a_process([&real] {
    const Library driver("libcuda.so.1");
    ASSERT_NE(driver.handle, nullptr) << ::dlerror();
    for (const abi::Name& name : abi::cuda_names()) {
      if (name.kind == abi::Kind::data) continue;
      EXPECT_EQ(::dlsym(driver.handle, name.name.data()) != nullptr, real.contains(std::string(name.name)))
          << name.name;
    }
    expect_clean(read_dynamic(driver.handle), "libcuda.so.1", "cu");
  });
}

INSTANTIATE_TEST_SUITE_P(Of, SimLibraryNames, testing::Values(12020, 13000, 13040),
                         [](const auto& test) { return "cuda" + std::to_string(test.param); });

TEST(Exports, TheSimulatorsOwnCallsBypassAPreloadedLimiter) {
  in_a_process([] {
    for (const char* file : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
      const Library library(file);
      ASSERT_NE(library.handle, nullptr) << ::dlerror();
      EXPECT_EQ(interposable(library.handle), std::vector<std::string>{}) << file;
    }
  });
}

TEST_P(SimLibraryNames, AreThoseOfTheRealNvml) {
  const std::set<std::string> real = names_in("libnvidia-ml-535.261.names", "nvml");
  ASSERT_GT(real.size(), 300U);
  in_a_process([&real] {
    const Library nvml("libnvidia-ml.so.1");
    ASSERT_NE(nvml.handle, nullptr) << ::dlerror();
    for (const abi::Name& name : abi::nvml_names()) {
      const bool of_driver_615 = name.name.ends_with("MemoryLimits_v1");
      const bool wanted = GetParam() >= (of_driver_615 ? 13040 : 13000) || real.contains(std::string(name.name));
      EXPECT_EQ(::dlsym(nvml.handle, name.name.data()) != nullptr, wanted) << name.name;
    }
    expect_clean(read_dynamic(nvml.handle), "libnvidia-ml.so.1", "nvml");
  });
}

TEST(Exports, AFunctionThatTheSimulatorLacksReportsIt) {
  in_a_process([] {
    const Library driver("libcuda.so.1");
    ASSERT_NE(driver.handle, nullptr) << ::dlerror();
    auto* unserved =
        reinterpret_cast<unsigned (*)(void*, void*)>(::dlsym(driver.handle, "cuEGLStreamConsumerDisconnect"));
    ASSERT_NE(unserved, nullptr);
    EXPECT_EQ(unserved(nullptr, nullptr), 801U);
  });
}

}  // namespace
}  // namespace headgate::sim
