// Every name that a driver exports and the simulator does not serve, so that each program links and each look-up finds
// what a real driver has. Weak: a definition elsewhere in the library wins. Debugger data symbols are left out: nothing
// is there to debug.
//
// A caller passes the arguments of the real signature; the calling conventions we build for (System V x86-64, AAPCS64)
// let the callee ignore them.
#include "guest/abi/cuda.hpp"

#define CU_NAME(name, kind)                                                                \
  extern "C" __attribute__((weak, visibility("default"))) headgate::abi::CUresult name() { \
    return headgate::abi::CUDA_ERROR_NOT_SUPPORTED;                                        \
  }
#include "guest/abi/cuda_table.def"
