// All names that a driver exports and the simulator does not implement, so that programs link and look-ups succeed as
// with a real driver. Weak: a definition elsewhere in the library wins. Debugger data symbols are left out, because
// there is nothing to debug.
//
// A caller passes the real signature's arguments; the calling conventions that we build for (System V x86-64, AAPCS64)
// let the callee ignore them.
#include "guest/abi/cuda.hpp"

#define CU_NAME(name, kind, since)                                                         \
  extern "C" __attribute__((weak, visibility("default"))) headgate::abi::CUresult name() { \
    return headgate::abi::CUDA_ERROR_NOT_SUPPORTED;                                        \
  }
#include "guest/abi/cuda_table.def"
