// For test programs that use GPU time: a GPU with kernels of known length, launches, waiting for the end of stdin.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "guest/abi/cuda.hpp"
#include "support/driver_call.hpp"

namespace headgate::e2e {

using namespace abi;

inline constexpr char kPtx[] = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry also_us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry hold(.param .u64 flag) { .pragma "headgate.sim.us 1"; .pragma "headgate.sim.wait param0"; ret; }
.visible .entry release(.param .u64 flag) { .pragma "headgate.sim.us 1"; .pragma "headgate.sim.set param0"; ret; }
)";

inline void ok(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s answered %u\n", what, static_cast<unsigned>(result));
  std::fflush(stdout);
  std::_Exit(4);
}
#define OK(name, ...) ok(#name, CALL(name)(__VA_ARGS__))

inline void say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

struct Gpu {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction us = nullptr, also_us = nullptr, hold = nullptr, release = nullptr;

  explicit Gpu(bool primary = false, int device = 0) {
    OK(cuInit, 0);
    if (primary) {
      OK(cuDevicePrimaryCtxRetain, &context, device);
      OK(cuCtxSetCurrent, context);
    } else {
      OK(cuCtxCreate_v2, &context, 0, device);
    }
    load();
  }
  void load() {
    OK(cuModuleLoadData, &module, kPtx);
    OK(cuModuleGetFunction, &us, module, "us");
    OK(cuModuleGetFunction, &also_us, module, "also_us");
    OK(cuModuleGetFunction, &hold, module, "hold");
    OK(cuModuleGetFunction, &release, module, "release");
  }
};

inline CUstream new_stream() {
  CUstream stream = nullptr;
  OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  return stream;
}

inline void launch(CUfunction kernel, unsigned us, CUstream stream, unsigned blocks = 1) {
  static const auto call = CALL(cuLaunchKernel);
  void* parameters[] = {&us};
  ok("cuLaunchKernel", call(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
}
inline void launch_flag(CUfunction kernel, CUdeviceptr flag, CUstream stream) {
  void* parameters[] = {&flag};
  OK(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
}

inline std::atomic<bool> stdin_closed{false};
inline void wait_for_stdin() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  stdin_closed = true;
}

}  // namespace headgate::e2e
