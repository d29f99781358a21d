// Types of NVML functions that only the simulator implements. The limiter does not hook them, so guest/abi has only
// their names. From NVML 11.8's nvml.h; newer ones are marked. wide_abi_check.cpp compares with the real header if it
// is installed.
#pragma once

#include "guest/abi/nvml.hpp"

namespace headgate::abi {

using nvmlBusType_t = unsigned;
using nvmlClockId_t = unsigned;
using nvmlMemoryErrorType_t = unsigned;
using nvmlEccCounterType_t = unsigned;
using nvmlMemoryLocation_t = unsigned;
using nvmlInforomObject_t = unsigned;
using nvmlPcieUtilCounter_t = unsigned;
using nvmlPowerSource_t = unsigned;
using nvmlNvLinkErrorCounter_t = unsigned;
using nvmlTemperatureThresholds_t = unsigned;
using nvmlGpuP2PCapsIndex_t = unsigned;
using nvmlGpuP2PStatus_t = unsigned;
using nvmlAffinityScope_t = unsigned;
using nvmlPerfPolicyType_t = unsigned;
using nvmlRestrictedAPI_t = unsigned;

inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 8;

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;
  long long timestamp;  // us since the epoch
  long long latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
};

struct nvmlViolationTime_t {
  unsigned long long referenceTime;  // us
  unsigned long long violationTime;  // ns
};

struct nvmlRowRemapperHistogramValues_t {
  unsigned max, high, partial, low, none;
};

struct nvmlFBCStats_t {
  unsigned sessionsCount, averageFPS, averageLatency;
};
struct nvmlEncoderSessionInfo_t;
struct nvmlFBCSessionInfo_t;
struct nvmlHwbcEntry_t;

// Of a MIG slice. The oldest nvmlDeviceGetAttributes has only the first six fields (NVML 11.0).
struct nvmlDeviceAttributes_v1_t {
  unsigned multiprocessorCount;
  unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
};
struct nvmlDeviceAttributes_t {
  unsigned multiprocessorCount;
  unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
  unsigned gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;  // MiB
};

struct nvmlEventSet_st;
using nvmlEventSet_t = nvmlEventSet_st*;

struct nvmlEventData_v1_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;  // the XID
};
struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};

struct nvmlGpmSample_st;
using nvmlGpmSample_t = nvmlGpmSample_st*;

struct nvmlGpmMetric_t {
  unsigned metricId;
  nvmlReturn_t nvmlReturn;
  double value;
  struct {
    char* shortName;
    char* longName;
    char* unit;
  } metricInfo;
};
inline constexpr unsigned NVML_GPM_METRIC_MAX = 98;
struct nvmlGpmMetricsGet_t {
  unsigned version;  // 1
  unsigned numMetrics;
  nvmlGpmSample_t sample1, sample2;
  nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
};
struct nvmlGpmSupport_t {
  unsigned version;  // 1
  unsigned isSupportedDevice;
};

// NVML 12; the version is sizeof | 2 << 24.
struct nvmlPowerValue_v2_t {
  unsigned version;
  unsigned char powerScope;  // 0: the GPU
  unsigned powerValueMw;
};

}  // namespace headgate::abi
