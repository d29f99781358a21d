// Memory that a context takes beyond its birth, without an allocation call: local memory for kernels that need more
// than any before, heap and printf buffers by cuCtxSetLimit, code of kernels at their first use. It shows in NVML as
// the context's.
//
// A card waits for its work before it grows local memory; here it does not. Local memory never shrinks (cuda.h:
// CU_CTX_LMEM_RESIZE_TO_MAX is what every context does).
#pragma once

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {

// CUDA_MODULE_LOADING, as the driver read it when it was initialised: lazy unless it says EAGER.
[[nodiscard]] bool loads_eagerly();

// Before a launch: the kernel's code is loaded, local memory has room for it. OUT_OF_MEMORY, and nothing taken.
CUresult make_ready(Function* function);
CUresult load_code(Function* function);
void unload_code(Function* function);
// A new value of one of the context's limits.
CUresult set_limit(Context* context, unsigned limit, std::uint64_t value);
// The context goes; what it took is given back.
void begin_growth(Context* context);
[[nodiscard]] std::uint64_t end_growth(Context* context);

}  // namespace headgate::sim::driver
