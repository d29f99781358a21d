// Memory that a context takes after its creation without an allocation call: local memory for a kernel that needs more
// than any before, heap and printf buffers set by cuCtxSetLimit, kernel code at first use. NVML reports it as the
// context's.
//
// A real card finishes its work before it grows local memory; the simulator does not wait. Local memory never shrinks
// (CU_CTX_LMEM_RESIZE_TO_MAX in cuda.h; every context behaves so).
#pragma once

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {

// Returns true if CUDA_MODULE_LOADING was EAGER when the driver was initialised. The default is lazy.
[[nodiscard]] bool loads_eagerly();

// Called before a launch: loads the kernel's code and makes room for its local memory. Takes nothing on OUT_OF_MEMORY.
CUresult make_ready(Function* function);
CUresult load_code(Function* function);
void unload_code(Function* function);
// Sets one of the context's limits.
CUresult set_limit(Context* context, unsigned limit, std::uint64_t value);
// Sets a new context's limits; end_growth() returns the bytes to release at its end.
void begin_growth(Context* context);
[[nodiscard]] std::uint64_t end_growth(Context* context);

}  // namespace headgate::sim::driver
