// The real driver and NVML behind the limiter: one pointer a function of the tables, found without passing through our
// own hooks. A pointer is null where the loaded library lacks the function.
#pragma once

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"

namespace headgate::limiter {

struct Driver {
#define CU_FN(name, kind, parameters, arguments) abi::name##_t* name;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/cuda_table.def"
};

struct Nvml {
#define NVML_FN(name, kind, parameters, arguments) abi::name##_t* name;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/nvml_table.def"
};

// Filled by load_driver() and load_nvml(); all null before.
extern Driver driver;
extern Nvml nvml;

inline constexpr const char* kDriverSoname = "libcuda.so.1";
inline constexpr const char* kNvmlSoname = "libnvidia-ml.so.1";

// Loads libcuda.so.1 (libnvidia-ml.so.1) as the program would, once, and fills the table. False where the library
// cannot be loaded. Thread-safe; after the first success one acquire load.
bool load_driver();
bool load_nvml();

}  // namespace headgate::limiter

// The definition of an exported hook: HEADGATE_HOOK cuInit(unsigned flags) {...} inside namespace headgate::limiter's
// files, at global scope. The linker's version script exports cu*, nvml*, dlsym and dlvsym.
#define HEADGATE_HOOK extern "C" __attribute__((visibility("default")))
