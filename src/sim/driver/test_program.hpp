// Shared by the driver tests: the library opened by dlopen, a program that uses it, separate processes.
#pragma once

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "guest/abi/cuda.hpp"
#include "sim/message.hpp"
#include "sim/node.hpp"
#include "sim/truth.hpp"

namespace headgate::sim {

using namespace headgate::abi;

struct Api {
#define CU_FN(name, kind, since, parameters, arguments) \
  abi::name##_t* name = nullptr;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/cuda_table.def"
};

inline Api load() {
  Api api;
  void* library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
  if (!library) throw std::runtime_error(::dlerror());
#define CU_FN(name, kind, since, parameters, arguments) \
  api.name = reinterpret_cast<abi::name##_t*>(::dlsym(library, #name));
#include "guest/abi/cuda_table.def"
  return api;
}

inline constexpr char kPtx[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry spin(.param .u64 spin_0) { .pragma "headgate.sim.wait param0"; ret; }
.visible .entry raise(.param .u64 raise_0) { .pragma "headgate.sim.set param0"; ret; }
)";

inline void must(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}
inline void ok(CUresult result, const char* what) {
  must(result == CUDA_SUCCESS, message(what, " answered ", static_cast<unsigned>(result)));
}
#define OK(call) ok(call, #call)

// A program with a current context and the kernels above loaded.
struct Program {
  Api cu = load();
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction us = nullptr, spin = nullptr, raise = nullptr;

  explicit Program(CUdevice device = 0) {
    OK(cu.cuInit(0));
    OK(cu.cuCtxCreate_v2(&context, 0, device));
    OK(cu.cuModuleLoadData(&module, kPtx));
    OK(cu.cuModuleGetFunction(&us, module, "us"));
    OK(cu.cuModuleGetFunction(&spin, module, "spin"));
    OK(cu.cuModuleGetFunction(&raise, module, "raise"));
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    OK(cu.cuStreamCreate(&made, flags));
    return made;
  }
  void run_us(unsigned microseconds, CUstream where, unsigned blocks = 1) {
    void* parameters[] = {&microseconds};
    OK(cu.cuLaunchKernel(us, blocks, 1, 1, 32, 1, 1, 0, where, parameters, nullptr));
  }
  void run_flag(CUfunction which, std::uint64_t flag, CUstream where) {
    void* parameters[] = {&flag};
    OK(cu.cuLaunchKernel(which, 1, 1, 1, 32, 1, 1, 0, where, parameters, nullptr));
  }
};

class Driver : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "headgate-driver-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ::setenv("HEADGATE_SIM_DIR", directory_.c_str(), 1);
    ::setenv("HEADGATE_SIM_PROFILE", "h200-cuda13", 1);  // a driver version that has all functions
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void TearDown() override {
    ::unsetenv("HEADGATE_SIM_PROFILE");
    std::filesystem::remove_all(directory_);
  }

  // Runs `program` in a separate process. Its exit runs the driver's atexit.
  static pid_t start(const std::function<void()>& program) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(60);
    try {
      program();
      std::exit(0);
    } catch (const std::exception& failed) {
      std::fprintf(stderr, "child: %s\n", failed.what());
      ::_exit(1);
    }
  }
  static int finish(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }
  static int run(const std::function<void()>& program) { return finish(start(program)); }

  DeviceTruth truth(std::uint32_t device = 0) {
    auto read = read_truth(directory_);
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->devices.at(device) : DeviceTruth{};
  }
  std::string directory_;
};

}  // namespace headgate::sim
