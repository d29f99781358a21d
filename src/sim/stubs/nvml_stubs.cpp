// All names that NVML exports and the simulator does not implement; see cuda_stubs.cpp.
#include "guest/abi/nvml.hpp"

#define NVML_NAME(name, kind)                                                                  \
  extern "C" __attribute__((weak, visibility("default"))) headgate::abi::nvmlReturn_t name() { \
    return headgate::abi::NVML_ERROR_NOT_SUPPORTED;                                            \
  }
#include "guest/abi/nvml_table.def"
