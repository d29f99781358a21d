// A program that is linked with a function which came after the driver's release (CUDA 12.8 and 13.0), and finds
// another such function by dlsym or not: "called N, found M".
#include <dlfcn.h>

#include <cstdio>

#include "guest/abi/cuda.hpp"

namespace abi = headgate::abi;

extern "C" abi::CUresult cuEventElapsedTime_v2(float*, abi::CUevent, abi::CUevent);

int main() {
  float milliseconds = 0;
  const auto called = cuEventElapsedTime_v2(&milliseconds, nullptr, nullptr);
  std::printf("called %u, found %d\n", static_cast<unsigned>(called),
              ::dlsym(RTLD_DEFAULT, "cuGreenCtxCreate") != nullptr);
  return 0;
}
