// What each tenant program does first: driver, device, primary context, the kernels.
#pragma once

#include <cstdint>
#include <string>

#include "driver.hpp"
#include "options.hpp"

namespace headgate::tenant {

// PTX with real bodies, so that the programs run on a real driver too; the simulator follows the pragmas.
//   tenant_busy(u64 mark, u32 us)  takes `us` microseconds of one SM per block, then stores 1 at `mark`
//   tenant_set(u64 flag)           stores 1 at `flag`
//   tenant_wait(u64 flag)          spins until the word at `flag` is not 0
extern const char* const kKernels;

struct Client {
  Driver driver;
  abi::CUdevice device = 0;
  abi::CUcontext context = nullptr;
  abi::CUmodule module = nullptr;
  abi::CUfunction busy = nullptr, set = nullptr, wait = nullptr;
  std::string
      failed_call;  // the first call that did not answer CUDA_SUCCESS while starting, with its result in `result`
  abi::CUresult result = abi::CUDA_SUCCESS;

  [[nodiscard]] bool ok() const { return result == abi::CUDA_SUCCESS; }
  // Kernel over `blocks` blocks of one thread. Arguments as cuLaunchKernel takes them.
  abi::CUresult launch(abi::CUfunction function, abi::CUstream stream, void** arguments, unsigned blocks = 1) const;
};

// cuInit, device, context and, when asked, the module. Look at ok() before using it.
[[nodiscard]] Client start(const Options& options, int device_offset = 0, bool with_module = true);

// {"ok":false,"call":"cuInit","result":"CUDA_ERROR_NOT_PERMITTED"} and exit status 1.
[[nodiscard]] int report_failure(const Client& client);

// CLOCK_MONOTONIC
[[nodiscard]] std::uint64_t now_ns();

// Sleeps `ms`; with 0 until stdin is closed.
void hold(std::uint64_t ms);

}  // namespace headgate::tenant
