// Our own declarations of NVML: the types and enumerators that headgate uses, and no more.
// Every fact is from NVML 11.8's nvml.h (layouts unchanged since for the functions named in nvml_table.def);
// nvml_abi_check.cpp compares with the real header where one is installed.
#pragma once

namespace headgate::abi {

struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;

enum nvmlReturn_t : unsigned {};
enum nvmlEnableState_t : unsigned {};
enum nvmlBrandType_t : unsigned {};
enum nvmlClockType_t : unsigned {};
enum nvmlComputeMode_t : unsigned {};
enum nvmlPstates_t : unsigned {};
enum nvmlTemperatureSensors_t : unsigned {};
enum nvmlGpuVirtualizationMode_t : unsigned {};
using nvmlDeviceArchitecture_t = unsigned;
using nvmlGpuTopologyLevel_t = unsigned;

#define NVML_VALUE(type, value, name) inline constexpr type name{value};
#include "guest/abi/nvml_values.def"

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlMemory_v2_t {
  unsigned version;  // sizeof(nvmlMemory_v2_t) | 2 << 24
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlBAR1Memory_t {
  unsigned long long bar1Total;
  unsigned long long bar1Free;
  unsigned long long bar1Used;
};

struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
};

struct nvmlProcessInfo_v2_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};
using nvmlProcessInfo_t = nvmlProcessInfo_v2_t;

using nvmlSamplingType_t = unsigned;
using nvmlValueType_t = unsigned;

inline constexpr nvmlValueType_t NVML_VALUE_TYPE_DOUBLE = 0;
inline constexpr nvmlValueType_t NVML_VALUE_TYPE_UNSIGNED_INT = 1;
inline constexpr nvmlValueType_t NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3;

union nvmlValue_t {
  double dVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  signed long long sllVal;
};

struct nvmlSample_t {
  unsigned long long timeStamp;  // us since the epoch
  nvmlValue_t sampleValue;
};

struct nvmlAccountingStats_t {
  unsigned gpuUtilization;            // percent of the process's life
  unsigned memoryUtilization;         // percent
  unsigned long long maxMemoryUsage;  // bytes
  unsigned long long time;            // ms; 0 while it runs
  unsigned long long startTime;       // us since the epoch
  unsigned isRunning;
  unsigned reserved[5];
};

struct nvmlUtilization_t {
  unsigned gpu;     // percent
  unsigned memory;  // percent
};

struct nvmlProcessUtilizationSample_t {
  unsigned pid;
  unsigned long long timeStamp;  // us since the epoch
  unsigned smUtil, memUtil, encUtil, decUtil;
};

// NVML 12.4; the layout of version 1.
struct nvmlProcessUtilizationInfo_v1_t {
  unsigned long long timeStamp;  // us since the epoch
  unsigned pid;
  unsigned smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
};

struct nvmlProcessesUtilizationInfo_t {
  unsigned version;  // kProcessesUtilizationVersion
  unsigned processSamplesCount;
  unsigned long long lastSeenTimeStamp;
  nvmlProcessUtilizationInfo_v1_t* procUtilArray;
};
inline constexpr unsigned kProcessesUtilizationVersion = sizeof(nvmlProcessesUtilizationInfo_t) | 1U << 24;

// NVML 12.
struct nvmlProcessDetail_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
  unsigned long long usedGpuCcProtectedMemory;
};

struct nvmlProcessDetailList_t {
  unsigned version;  // kProcessDetailListVersion
  unsigned mode;     // 0 compute, 1 graphics, 2 MPS
  unsigned numProcArrayEntries;
  nvmlProcessDetail_v1_t* procArray;
};
inline constexpr unsigned kProcessDetailListVersion = sizeof(nvmlProcessDetailList_t) | 1U << 24;

// NVML 13.4 (driver r615): limits of a GPU's memory for all processes of a cgroup (version 2). The layouts are those of
// nvml.h in cuda-nvml-dev-13-4 13.4.92, which NVIDIA's NVML reference names field by field; there is no version word.
// `nameSpace`: the full path of the cgroup's directory.
struct nvmlSetMemoryLimits_v1_t {
  const char* nameSpace;
  unsigned long long softLimit;  // bytes; 0: none
  unsigned long long hardLimit;  // bytes; NVML_DEVICE_MEMORY_LIMIT_MAX: none
};
struct nvmlGetMemoryLimits_v1_t {
  const char* nameSpace;
  unsigned long long softLimit;
  unsigned long long hardLimit;
  unsigned long long currentUsed;  // bytes, as the driver counts for the cgroup
};
static_assert(sizeof(nvmlSetMemoryLimits_v1_t) == 24 && sizeof(nvmlGetMemoryLimits_v1_t) == 32);
inline constexpr unsigned long long NVML_DEVICE_MEMORY_LIMIT_MAX = ~0ULL;

// The table that nvmlInternalGetExportTable returns for this ID: a size in bytes, then functions that no header
// declares. nvidia-smi (535 and 580) lists processes through three of them (slots: compute, graphics, MPS). The row
// layout was found by experiment (docs/simulator.md).
struct NvmlExportedProcess {
  nvmlProcessDetail_v1_t detail;
  char name[4096];
};
static_assert(sizeof(NvmlExportedProcess) == 4128);
using NvmlExportedProcessList = nvmlReturn_t(nvmlDevice_t device, unsigned* count, NvmlExportedProcess* rows);
inline constexpr unsigned kNvmlExportedLists = 213, kNvmlExportedListCount = 3;
// `pmon` averages a process's utilisation over the rows of this slot. A row has four engines (SM, memory, encoder,
// decoder), each with the process it counts for, or ~0 if none.
struct NvmlExportedSample {
  unsigned long long timeStamp;
  struct {
    unsigned utilization, unknown1, pid, unknown2[17];
  } engines[4];
};
static_assert(sizeof(NvmlExportedSample) == 328);
using NvmlExportedSamples = nvmlReturn_t(nvmlDevice_t device, unsigned long long since_us, unsigned* type,
                                         unsigned* count, NvmlExportedSample* rows);
inline constexpr unsigned kNvmlExportedSamples = 145;
// How nvidia-smi finds the GPU of `-i` ADDRESS: it splits the text, and compares it with the address of each GPU by
// index. The address as text (0000:1F:00.0) is for its messages.
using NvmlExportedSplitPci = nvmlReturn_t(const char* text, unsigned* domain, unsigned* bus, unsigned* device,
                                          unsigned* function);
using NvmlExportedPciByIndex = nvmlReturn_t(unsigned index, unsigned* domain, unsigned* bus, unsigned* device);
using NvmlExportedPciTextByIndex = nvmlReturn_t(unsigned index, char* text, unsigned bytes);
inline constexpr unsigned kNvmlExportedSplitPci = 12, kNvmlExportedPciByIndex = 75, kNvmlExportedPciTextByIndex = 81;
// `nvidia-smi compute-policy` sets and lists what GPUs do by policy; the only policy, 0, is the length of time slices:
// 0 default, 1 short, 2 medium, 3 long.
struct NvmlExportedPolicy {
  unsigned policy, value;
};
struct NvmlExportedPolicies {
  unsigned count;
  NvmlExportedPolicy rows[32];
};
static_assert(sizeof(NvmlExportedPolicies) == 260);
using NvmlExportedSetPolicy = nvmlReturn_t(nvmlDevice_t device, const NvmlExportedPolicy* wanted);
using NvmlExportedListPolicies = nvmlReturn_t(nvmlDevice_t device, NvmlExportedPolicies* policies);
inline constexpr unsigned kNvmlExportedSetPolicy = 192, kNvmlExportedListPolicies = 193;
inline constexpr unsigned char kNvmlExportTableId[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                                         0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

struct nvmlPciInfo_v1_t {
  char busId[16];
  unsigned domain, bus, device, pciDeviceId;
  unsigned pciSubSystemId;
  unsigned reserved[4];
};

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};

// Function types: nvmlInit_v2_t and so on, one for each NVML_FN of the table.
#define NVML_FN(name, kind, parameters, arguments) using name##_t = nvmlReturn_t parameters;
#include "guest/abi/nvml_table.def"

}  // namespace headgate::abi
