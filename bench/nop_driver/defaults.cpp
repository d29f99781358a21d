// Defines every name of the two tables as a function that does nothing and succeeds. answers.cpp and nvml.cpp define
// those that must return data.
#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"
#include "nop_driver/calls.hpp"

#define NOP_EXPORT extern "C" __attribute__((visibility("default"), weak))

namespace headgate::abi {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CU_FN(name, kind, since, parameters, arguments) \
  NOP_EXPORT CUresult name parameters {                 \
    bench::nop::count_call();                           \
    return CUDA_SUCCESS;                                \
  }
#define CU_NAME(name, kind, since) \
  NOP_EXPORT CUresult name() {     \
    bench::nop::count_call();      \
    return CUDA_SUCCESS;           \
  }
#include "guest/abi/cuda_table.def"

#define NVML_FN(name, kind, parameters, arguments) \
  NOP_EXPORT nvmlReturn_t name parameters {        \
    bench::nop::count_call();                      \
    return NVML_SUCCESS;                           \
  }
#define NVML_NAME(name, kind)      \
  NOP_EXPORT nvmlReturn_t name() { \
    bench::nop::count_call();      \
    return NVML_SUCCESS;           \
  }
#include "guest/abi/nvml_table.def"
#pragma GCC diagnostic pop

}  // namespace headgate::abi
