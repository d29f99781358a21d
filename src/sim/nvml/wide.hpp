// NVML functions and types that only the simulator implements. The limiter does not hook them, so guest/abi has only
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
using nvmlSamplingType_t = unsigned;
using nvmlValueType_t = unsigned;
using nvmlPerfPolicyType_t = unsigned;
using nvmlRestrictedAPI_t = unsigned;

inline constexpr nvmlValueType_t NVML_VALUE_TYPE_DOUBLE = 0;
inline constexpr nvmlValueType_t NVML_VALUE_TYPE_UNSIGNED_INT = 1;
inline constexpr nvmlValueType_t NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3;

inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 8;

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

struct nvmlAccountingStats_t {
  unsigned gpuUtilization;            // percent of the process's life
  unsigned memoryUtilization;         // percent
  unsigned long long maxMemoryUsage;  // bytes
  unsigned long long time;            // ms; 0 while it runs
  unsigned long long startTime;       // us since the epoch
  unsigned isRunning;
  unsigned reserved[5];
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

extern "C" {
#define SIM_NVML(name, ...) __attribute__((visibility("default"))) nvmlReturn_t name(__VA_ARGS__)
SIM_NVML(nvmlDeviceGetBoardPartNumber, nvmlDevice_t device, char* partNumber, unsigned length);
SIM_NVML(nvmlDeviceGetModuleId, nvmlDevice_t device, unsigned* moduleId);  // NVML 12
SIM_NVML(nvmlDeviceGetInforomImageVersion, nvmlDevice_t device, char* version, unsigned length);
SIM_NVML(nvmlDeviceGetInforomVersion, nvmlDevice_t device, nvmlInforomObject_t object, char* version, unsigned length);
SIM_NVML(nvmlDeviceValidateInforom, nvmlDevice_t device);
SIM_NVML(nvmlDeviceGetGspFirmwareVersion, nvmlDevice_t device, char* version);
SIM_NVML(nvmlDeviceGetGspFirmwareMode, nvmlDevice_t device, unsigned* isEnabled, unsigned* defaultMode);
SIM_NVML(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDevice_t device, unsigned* currLinkGen);
SIM_NVML(nvmlDeviceGetCurrPcieLinkWidth, nvmlDevice_t device, unsigned* currLinkWidth);
SIM_NVML(nvmlDeviceGetMaxPcieLinkGeneration, nvmlDevice_t device, unsigned* maxLinkGen);
SIM_NVML(nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDevice_t device, unsigned* maxLinkGenDevice);  // NVML 12
SIM_NVML(nvmlDeviceGetMaxPcieLinkWidth, nvmlDevice_t device, unsigned* maxLinkWidth);
SIM_NVML(nvmlDeviceGetPcieReplayCounter, nvmlDevice_t device, unsigned* value);
SIM_NVML(nvmlDeviceGetPcieThroughput, nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned* value);
SIM_NVML(nvmlDeviceGetPcieSpeed, nvmlDevice_t device, unsigned* pcieSpeed);
SIM_NVML(nvmlDeviceGetPcieLinkMaxSpeed, nvmlDevice_t device, unsigned* maxSpeed);
SIM_NVML(nvmlDeviceGetBusType, nvmlDevice_t device, nvmlBusType_t* type);
SIM_NVML(nvmlDeviceGetClock, nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId, unsigned* clockMHz);
SIM_NVML(nvmlDeviceGetApplicationsClock, nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz);
SIM_NVML(nvmlDeviceGetDefaultApplicationsClock, nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz);
SIM_NVML(nvmlDeviceGetMaxCustomerBoostClock, nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz);
SIM_NVML(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDevice_t device, unsigned long long* clocksThrottleReasons);
SIM_NVML(nvmlDeviceGetCurrentClocksEventReasons, nvmlDevice_t device, unsigned long long* reasons);
SIM_NVML(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDevice_t device, unsigned long long* supported);
SIM_NVML(nvmlDeviceGetSupportedClocksEventReasons, nvmlDevice_t device, unsigned long long* supported);
SIM_NVML(nvmlDeviceGetSupportedGraphicsClocks, nvmlDevice_t device, unsigned memoryClockMHz, unsigned* count,
         unsigned* clocksMHz);
SIM_NVML(nvmlDeviceGetSupportedMemoryClocks, nvmlDevice_t device, unsigned* count, unsigned* clocksMHz);
SIM_NVML(nvmlDeviceGetSupportedPerformanceStates, nvmlDevice_t device, nvmlPstates_t* pstates, unsigned size);
SIM_NVML(nvmlDeviceGetPowerState, nvmlDevice_t device, nvmlPstates_t* pState);
SIM_NVML(nvmlDeviceGetPowerSource, nvmlDevice_t device, nvmlPowerSource_t* powerSource);
SIM_NVML(nvmlDeviceGetTotalEccErrors, nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
         nvmlEccCounterType_t counterType, unsigned long long* eccCounts);
SIM_NVML(nvmlDeviceGetMemoryErrorCounter, nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
         nvmlEccCounterType_t counterType, nvmlMemoryLocation_t locationType, unsigned long long* count);
SIM_NVML(nvmlDeviceGetDefaultEccMode, nvmlDevice_t device, nvmlEnableState_t* defaultMode);
SIM_NVML(nvmlDeviceGetRemappedRows, nvmlDevice_t device, unsigned* corrRows, unsigned* uncRows, unsigned* isPending,
         unsigned* failureOccurred);
SIM_NVML(nvmlDeviceGetRowRemapperHistogram, nvmlDevice_t device, nvmlRowRemapperHistogramValues_t* values);
SIM_NVML(nvmlDeviceGetTemperatureThreshold, nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
         unsigned* temp);
SIM_NVML(nvmlDeviceGetEncoderStats, nvmlDevice_t device, unsigned* sessionCount, unsigned* averageFps,
         unsigned* averageLatency);
SIM_NVML(nvmlDeviceGetEncoderSessions, nvmlDevice_t device, unsigned* sessionCount,
         nvmlEncoderSessionInfo_t* sessionInfos);
SIM_NVML(nvmlDeviceGetFBCStats, nvmlDevice_t device, nvmlFBCStats_t* fbcStats);
SIM_NVML(nvmlDeviceGetFBCSessions, nvmlDevice_t device, unsigned* sessionCount, nvmlFBCSessionInfo_t* sessionInfo);
SIM_NVML(nvmlDeviceGetJpgUtilization, nvmlDevice_t device, unsigned* utilization,
         unsigned* samplingPeriodUs);  // NVML 12
SIM_NVML(nvmlDeviceGetOfaUtilization, nvmlDevice_t device, unsigned* utilization,
         unsigned* samplingPeriodUs);  // NVML 12
SIM_NVML(nvmlDeviceGetP2PStatus, nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
         nvmlGpuP2PStatus_t* p2pStatus);
SIM_NVML(nvmlDeviceGetTopologyCommonAncestor, nvmlDevice_t device1, nvmlDevice_t device2,
         nvmlGpuTopologyLevel_t* pathInfo);
SIM_NVML(nvmlDeviceGetCpuAffinity, nvmlDevice_t device, unsigned cpuSetSize, unsigned long* cpuSet);
SIM_NVML(nvmlDeviceGetCpuAffinityWithinScope, nvmlDevice_t device, unsigned cpuSetSize, unsigned long* cpuSet,
         nvmlAffinityScope_t scope);
SIM_NVML(nvmlDeviceGetMemoryAffinity, nvmlDevice_t device, unsigned nodeSetSize, unsigned long* nodeSet,
         nvmlAffinityScope_t scope);
SIM_NVML(nvmlDeviceOnSameBoard, nvmlDevice_t device1, nvmlDevice_t device2, int* onSameBoard);
SIM_NVML(nvmlDeviceGetNvLinkState, nvmlDevice_t device, unsigned link, nvmlEnableState_t* isActive);
SIM_NVML(nvmlDeviceGetNvLinkErrorCounter, nvmlDevice_t device, unsigned link, nvmlNvLinkErrorCounter_t counter,
         unsigned long long* counterValue);
SIM_NVML(nvmlDeviceGetNumFans, nvmlDevice_t device, unsigned* numFans);
SIM_NVML(nvmlSystemGetHicVersion, unsigned* hwbcCount, nvmlHwbcEntry_t* hwbcEntries);
SIM_NVML(nvmlGetExcludedDeviceCount, unsigned* deviceCount);
SIM_NVML(nvmlGetBlacklistDeviceCount, unsigned* deviceCount);
SIM_NVML(nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t device, unsigned* count);
SIM_NVML(nvmlDeviceIsMigDeviceHandle, nvmlDevice_t device, unsigned* isMigDevice);
SIM_NVML(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t device, unsigned index, nvmlDevice_t* migDevice);
SIM_NVML(nvmlDeviceGetGpuInstanceId, nvmlDevice_t device, unsigned* id);
SIM_NVML(nvmlDeviceGetComputeInstanceId, nvmlDevice_t device, unsigned* id);
SIM_NVML(nvmlDeviceGetAttributes, nvmlDevice_t device, nvmlDeviceAttributes_v1_t* attributes);
SIM_NVML(nvmlDeviceGetAttributes_v2, nvmlDevice_t device, nvmlDeviceAttributes_t* attributes);
SIM_NVML(nvmlDeviceGetSamples, nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long lastSeenTimeStamp,
         nvmlValueType_t* sampleValType, unsigned* sampleCount, nvmlSample_t* samples);
SIM_NVML(nvmlDeviceGetViolationStatus, nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType,
         nvmlViolationTime_t* violTime);
SIM_NVML(nvmlDeviceGetFieldValues, nvmlDevice_t device, int valuesCount, nvmlFieldValue_t* values);
SIM_NVML(nvmlDeviceGetAPIRestriction, nvmlDevice_t device, nvmlRestrictedAPI_t apiType,
         nvmlEnableState_t* isRestricted);

SIM_NVML(nvmlDeviceGetAccountingBufferSize, nvmlDevice_t device, unsigned* bufferSize);
SIM_NVML(nvmlDeviceGetAccountingPids, nvmlDevice_t device, unsigned* count, unsigned* pids);
SIM_NVML(nvmlDeviceGetAccountingStats, nvmlDevice_t device, unsigned pid, nvmlAccountingStats_t* stats);
SIM_NVML(nvmlDeviceSetAccountingMode, nvmlDevice_t device, nvmlEnableState_t mode);
SIM_NVML(nvmlDeviceClearAccountingPids, nvmlDevice_t device);

SIM_NVML(nvmlEventSetCreate, nvmlEventSet_t* set);
SIM_NVML(nvmlEventSetFree, nvmlEventSet_t set);
SIM_NVML(nvmlEventSetWait, nvmlEventSet_t set, nvmlEventData_v1_t* data, unsigned timeoutms);
SIM_NVML(nvmlEventSetWait_v2, nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeoutms);
SIM_NVML(nvmlDeviceRegisterEvents, nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set);
SIM_NVML(nvmlDeviceGetSupportedEventTypes, nvmlDevice_t device, unsigned long long* eventTypes);

SIM_NVML(nvmlGpmSampleAlloc, nvmlGpmSample_t* gpmSample);
SIM_NVML(nvmlGpmSampleFree, nvmlGpmSample_t gpmSample);
SIM_NVML(nvmlGpmSampleGet, nvmlDevice_t device, nvmlGpmSample_t gpmSample);
SIM_NVML(nvmlGpmMetricsGet, nvmlGpmMetricsGet_t* metricsGet);
SIM_NVML(nvmlGpmQueryDeviceSupport, nvmlDevice_t device, nvmlGpmSupport_t* gpmSupport);

SIM_NVML(nvmlDeviceSetPersistenceMode, nvmlDevice_t device, nvmlEnableState_t mode);
SIM_NVML(nvmlDeviceSetComputeMode, nvmlDevice_t device, nvmlComputeMode_t mode);
SIM_NVML(nvmlDeviceSetPowerManagementLimit, nvmlDevice_t device, unsigned limit);
SIM_NVML(nvmlDeviceSetPowerManagementLimit_v2, nvmlDevice_t device, nvmlPowerValue_v2_t* powerValue);
SIM_NVML(nvmlDeviceSetGpuLockedClocks, nvmlDevice_t device, unsigned minGpuClockMHz, unsigned maxGpuClockMHz);
SIM_NVML(nvmlDeviceResetGpuLockedClocks, nvmlDevice_t device);
SIM_NVML(nvmlDeviceSetMemoryLockedClocks, nvmlDevice_t device, unsigned minMemClockMHz, unsigned maxMemClockMHz);
SIM_NVML(nvmlDeviceResetMemoryLockedClocks, nvmlDevice_t device);
SIM_NVML(nvmlDeviceSetApplicationsClocks, nvmlDevice_t device, unsigned memClockMHz, unsigned graphicsClockMHz);
SIM_NVML(nvmlDeviceResetApplicationsClocks, nvmlDevice_t device);
SIM_NVML(nvmlDeviceSetEccMode, nvmlDevice_t device, nvmlEnableState_t ecc);
SIM_NVML(nvmlDeviceClearEccErrorCounts, nvmlDevice_t device, nvmlEccCounterType_t counterType);
#undef SIM_NVML
}

}  // namespace headgate::abi
