// Compares our declarations of NVML with the real nvml.h. Built only where one is installed; it has no code.
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // otherwise nvml.h maps functions to their newest variants by macros
#include <nvml.h>

#include "guest/abi/abi_check.hpp"
#include "guest/abi/nvml.hpp"

// The first is in no header, the others in none before NVML 12.
extern "C" {
nvmlReturn_t nvmlInternalGetExportTable(const void** ppExportTable, const void* pExportTableId);
#ifndef nvmlProcessDetailList_v1
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, ours::nvmlProcessDetailList_t* plist);
#endif
#ifndef nvmlProcessesUtilizationInfo_v1
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   ours::nvmlProcessesUtilizationInfo_t* procesesUtilInfo);
#endif
}

namespace {

#define NVML_FN(name, kind, parameters, arguments) \
  static_assert(Compare<decltype(::name), ours::name##_t>::value, #name " differs from nvml.h");
#include "guest/abi/nvml_table.def"

SAME_VALUE(NVML_SUCCESS);
SAME_VALUE(NVML_ERROR_UNINITIALIZED);
SAME_VALUE(NVML_ERROR_INVALID_ARGUMENT);
SAME_VALUE(NVML_ERROR_NOT_SUPPORTED);
SAME_VALUE(NVML_ERROR_NO_PERMISSION);
SAME_VALUE(NVML_ERROR_ALREADY_INITIALIZED);
SAME_VALUE(NVML_ERROR_NOT_FOUND);
SAME_VALUE(NVML_ERROR_INSUFFICIENT_SIZE);
SAME_VALUE(NVML_ERROR_DRIVER_NOT_LOADED);
SAME_VALUE(NVML_ERROR_TIMEOUT);
SAME_VALUE(NVML_ERROR_LIBRARY_NOT_FOUND);
SAME_VALUE(NVML_ERROR_FUNCTION_NOT_FOUND);
SAME_VALUE(NVML_ERROR_GPU_IS_LOST);
SAME_VALUE(NVML_ERROR_OPERATING_SYSTEM);
SAME_VALUE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
SAME_VALUE(NVML_ERROR_UNKNOWN);
SAME_VALUE(NVML_FEATURE_DISABLED);
SAME_VALUE(NVML_FEATURE_ENABLED);
SAME_VALUE(NVML_BRAND_UNKNOWN);
SAME_VALUE(NVML_BRAND_TESLA);
SAME_VALUE(NVML_BRAND_NVIDIA);
SAME_VALUE(NVML_CLOCK_GRAPHICS);
SAME_VALUE(NVML_CLOCK_SM);
SAME_VALUE(NVML_CLOCK_MEM);
SAME_VALUE(NVML_CLOCK_VIDEO);
SAME_VALUE(NVML_COMPUTEMODE_DEFAULT);
SAME_VALUE(NVML_PSTATE_0);
SAME_VALUE(NVML_PSTATE_8);
SAME_VALUE(NVML_PSTATE_UNKNOWN);
SAME_VALUE(NVML_TEMPERATURE_GPU);
SAME_VALUE(NVML_GPU_VIRTUALIZATION_MODE_NONE);

SAME_SIZE(nvmlMemory_t);
SAME_PLACE(nvmlMemory_t, used);
SAME_SIZE(nvmlMemory_v2_t);
SAME_PLACE(nvmlMemory_v2_t, used);
SAME_SIZE(nvmlBAR1Memory_t);
SAME_PLACE(nvmlBAR1Memory_t, bar1Used);
SAME_SIZE(nvmlProcessInfo_v1_t);
SAME_PLACE(nvmlProcessInfo_v1_t, usedGpuMemory);
SAME_SIZE(nvmlProcessInfo_v2_t);
SAME_PLACE(nvmlProcessInfo_v2_t, computeInstanceId);
SAME_SIZE(nvmlUtilization_t);
SAME_PLACE(nvmlUtilization_t, memory);
SAME_SIZE(nvmlProcessUtilizationSample_t);
SAME_PLACE(nvmlProcessUtilizationSample_t, decUtil);
SAME_SIZE(nvmlPciInfo_t);
SAME_PLACE(nvmlPciInfo_t, busId);

}  // namespace
