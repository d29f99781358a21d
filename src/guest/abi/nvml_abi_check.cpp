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

#define NVML_VALUE(type, value, name) SAME_VALUE(name);
#include "guest/abi/nvml_values.def"

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
