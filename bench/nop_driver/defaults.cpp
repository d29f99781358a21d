// Every name of the table, doing nothing and saying success; answers.cpp holds those that must answer something.
#include "guest/abi/cuda.hpp"
#include "nop_driver/calls.hpp"

#define NOP_EXPORT extern "C" __attribute__((visibility("default"), weak))

namespace headgate::abi {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CU_FN(name, kind, parameters, arguments) \
  NOP_EXPORT CUresult name parameters {          \
    bench::nop::count_call();                    \
    return CUDA_SUCCESS;                         \
  }
#define CU_NAME(name, kind)    \
  NOP_EXPORT CUresult name() { \
    bench::nop::count_call();  \
    return CUDA_SUCCESS;       \
  }
#include "guest/abi/cuda_table.def"
#pragma GCC diagnostic pop

}  // namespace headgate::abi
