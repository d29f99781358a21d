// The load generator's kernels as PTX, which a real driver compiles and the simulator times.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "load/driver.hpp"

namespace headgate::load {

// A loaded kernel. Its handles belong to the context that was current.
struct BusyKernel {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  double rounds_per_us = 0;
};

// If `rounds_per_us` is above 0, kernels do a fixed amount of work instead of waiting for time to pass: this many
// rounds per requested microsecond. Measure a GPU's rate while nothing else runs on it.
[[nodiscard]] Result<BusyKernel> load_busy_kernel(const Driver& driver, double rounds_per_us = 0);

// Launches `blocks` of one thread each, `microseconds` long if all fit the GPU at once (32 per SM). The caller checks
// the result.
[[nodiscard]] inline CUresult launch_busy(const Driver& driver, const BusyKernel& kernel, double microseconds,
                                          CUstream stream, unsigned blocks = 1) {
  void* parameters[] = {&microseconds};
  return driver.cuLaunchKernel(kernel.function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

// The driver function that launches a kernel: cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel, or
// cuLaunchKernelEx allowed to start before the preceding kernel ends (programmatic stream serialisation).
enum class LaunchCall { plain, extended, cooperative, chain };

// Their names, in that order.
inline constexpr std::string_view kLaunchCalls[] = {"plain", "ex", "cooperative", "chain"};

// Like launch_busy(), with `call`; if `per_thread`, with its _ptsz variant, for which stream 0 is the calling thread's
// own. Returns CUDA_ERROR_NOT_FOUND if the driver lacks the function.
[[nodiscard]] CUresult launch_busy_by(LaunchCall call, bool per_thread, const Driver& driver, const BusyKernel& kernel,
                                      double microseconds, CUstream stream, unsigned blocks = 1);

}  // namespace headgate::load
