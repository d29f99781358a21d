// Names of the driver API's results.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::abi {

// Returns the enumerator's name, such as "CUDA_ERROR_OUT_OF_MEMORY"; nullptr if CUDA has no such result.
constexpr const char* name_of(CUresult result) {
  switch (result) {
#define CU_RESULT(value, name) \
  case name: return #name;
#include "guest/abi/cuda_values.def"
  }
  return nullptr;
}

}  // namespace headgate::abi
