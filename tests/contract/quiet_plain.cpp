// All functions of the two tables that quiet_driver.cpp and quiet_nvml.cpp do not define. They do nothing and succeed.
#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"

#pragma GCC diagnostic ignored "-Wunused-parameter"
using namespace headgate::abi;

#ifdef QUIET_NVML
#define NVML_FN(name, kind, parameters, arguments) \
  extern "C" __attribute__((visibility("default"), weak)) nvmlReturn_t name parameters { return NVML_SUCCESS; }
#include "guest/abi/nvml_table.def"
#else
#define CU_FN(name, kind, since, parameters, arguments) \
  extern "C" __attribute__((visibility("default"), weak)) CUresult name parameters { return CUDA_SUCCESS; }
#include "guest/abi/cuda_table.def"
#endif
