// The first steps of each tenant program: driver, device, primary context, kernels.
#pragma once

#include <cstdint>
#include <string>

#include "driver.hpp"
#include "options.hpp"

namespace headgate::tenant {

// PTX with real bodies, so that the programs run on a real driver too; the simulator uses the pragmas.
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
  std::string failed_call;  // the first call that failed while starting; its result is in `result`
  abi::CUresult result = abi::CUDA_SUCCESS;

  [[nodiscard]] bool ok() const { return result == abi::CUDA_SUCCESS; }
  // Launches a kernel of `blocks` blocks with one thread each. Arguments as for cuLaunchKernel.
  abi::CUresult launch(abi::CUfunction function, abi::CUstream stream, void** arguments, unsigned blocks = 1) const;
};

// Runs cuInit and opens device, context and, if requested, the module. Check ok() before using it.
[[nodiscard]] Client start(const Options& options, int device_offset = 0, bool with_module = true);

// Prints {"ok":false,"call":"cuInit","result":"CUDA_ERROR_NOT_PERMITTED"}; returns exit status 1.
[[nodiscard]] int report_failure(const Client& client);

// CLOCK_MONOTONIC
[[nodiscard]] std::uint64_t now_ns();

// Sleeps `ms`; if 0, until stdin is closed.
void hold(std::uint64_t ms);

}  // namespace headgate::tenant
