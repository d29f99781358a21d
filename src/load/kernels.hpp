// The kernels of the load generator, as PTX text that a real driver compiles and the simulator times.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "load/driver.hpp"

namespace headgate::load {

// One loaded kernel. Handles belong to the context that was current.
struct BusyKernel {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  double rounds_per_us = 0;
};

// With `rounds_per_us` above 0 a kernel does a fixed amount of work instead of waiting for a time to pass: so many
// rounds for each microsecond it is asked for. How many a card does in a microsecond has to be measured alone on the
// card first.
[[nodiscard]] Result<BusyKernel> load_busy_kernel(const Driver& driver, double rounds_per_us = 0);

// Launches it: blocks of one thread, `microseconds` long as long as all of them fit the card (32 an SM). The caller
// looks at the result.
[[nodiscard]] inline CUresult launch_busy(const Driver& driver, const BusyKernel& kernel, double microseconds,
                                          CUstream stream, unsigned blocks = 1) {
  void* parameters[] = {&microseconds};
  return driver.cuLaunchKernel(kernel.function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

// By which of the driver's functions a kernel is launched: cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel,
// or cuLaunchKernelEx with leave to begin before the kernel ahead of it ends (programmatic stream serialisation).
enum class LaunchCall { plain, extended, cooperative, chain };

// The words for them, in that order.
inline constexpr std::string_view kLaunchCalls[] = {"plain", "ex", "cooperative", "chain"};

// As launch_busy(), by `call`; with `per_thread` by its _ptsz twin, to which stream 0 is the calling thread's own.
// CUDA_ERROR_NOT_FOUND where the driver lacks the function.
[[nodiscard]] CUresult launch_busy_by(LaunchCall call, bool per_thread, const Driver& driver, const BusyKernel& kernel,
                                      double microseconds, CUstream stream, unsigned blocks = 1);

}  // namespace headgate::load
