// The real driver and NVML behind the limiter: one pointer per function of the tables, found without passing through
// our hooks. A pointer is null if the loaded library lacks the function.
#pragma once

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"

namespace headgate::limiter {

struct Driver {
#define CU_FN(name, kind, since, parameters, arguments) abi::name##_t* name;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/cuda_table.def"
};

struct Nvml {
#define NVML_FN(name, kind, parameters, arguments) abi::name##_t* name;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/nvml_table.def"
};

// Filled by load_driver() and load_nvml(); all null before that.
extern Driver driver;
extern Nvml nvml;

inline constexpr const char* kDriverSoname = "libcuda.so.1";
inline constexpr const char* kNvmlSoname = "libnvidia-ml.so.1";

// Loads libcuda.so.1 (libnvidia-ml.so.1) once, as the program would, and fills the table. Returns false if the library
// cannot be loaded. Thread-safe; after the first success one acquire load.
bool load_driver();
bool load_nvml();

// Fills driver (nvml) if the library is already loaded; never loads it. Returns whether it is loaded.
bool driver_is_loaded();
bool nvml_is_loaded();

// Returns whether an address is in the loaded libcuda.so.1 (libnvidia-ml.so.1); false while that is not loaded.
bool driver_owns(const void* address);
bool nvml_owns(const void* address);

}  // namespace headgate::limiter

// Defines an exported hook, at global scope: HEADGATE_HOOK cuInit(unsigned flags) {...}. The linker's version script
// exports cu*, nvml*, dlsym and dlvsym.
#define HEADGATE_HOOK extern "C" __attribute__((visibility("default")))
