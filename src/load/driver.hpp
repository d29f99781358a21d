// Loads the CUDA driver as an application does: libcuda.so.1 through the loader, and functions by name.
//
// Used by the load generator, the benches and tests on real GPUs. The same code runs on the simulator:
// LD_LIBRARY_PATH decides which libcuda.so.1 is loaded, and a preloaded limiter interposes as in any program.
#pragma once

#include <string>

#include "base/result.hpp"
#include "guest/abi/cuda.hpp"

namespace headgate::load {

using namespace abi;

// One X per function; the member's name is the driver's without "_vN".
#define HEADGATE_LOAD_DRIVER(X)                                                                \
  X(cuInit, "cuInit", cuInit_t)                                                                \
  X(cuDeviceGet, "cuDeviceGet", cuDeviceGet_t)                                                 \
  X(cuDeviceGetCount, "cuDeviceGetCount", cuDeviceGetCount_t)                                  \
  X(cuDeviceGetName, "cuDeviceGetName", cuDeviceGetName_t)                                     \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", cuDeviceTotalMem_v2_t)                            \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", cuDeviceGetAttribute_t)                      \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain_t)          \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease_v2_t) \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", cuCtxSetCurrent_t)                                     \
  X(cuCtxSynchronize, "cuCtxSynchronize", cuCtxSynchronize_t)                                  \
  X(cuModuleLoadData, "cuModuleLoadData", cuModuleLoadData_t)                                  \
  X(cuModuleGetFunction, "cuModuleGetFunction", cuModuleGetFunction_t)                         \
  X(cuModuleUnload, "cuModuleUnload", cuModuleUnload_t)                                        \
  X(cuMemAlloc, "cuMemAlloc_v2", cuMemAlloc_v2_t)                                              \
  X(cuMemFree, "cuMemFree_v2", cuMemFree_v2_t)                                                 \
  X(cuMemGetInfo, "cuMemGetInfo_v2", cuMemGetInfo_v2_t)                                        \
  X(cuStreamCreate, "cuStreamCreate", cuStreamCreate_t)                                        \
  X(cuStreamDestroy, "cuStreamDestroy_v2", cuStreamDestroy_v2_t)                               \
  X(cuStreamSynchronize, "cuStreamSynchronize", cuStreamSynchronize_t)                         \
  X(cuStreamQuery, "cuStreamQuery", cuStreamQuery_t)                                           \
  X(cuEventCreate, "cuEventCreate", cuEventCreate_t)                                           \
  X(cuEventDestroy, "cuEventDestroy_v2", cuEventDestroy_v2_t)                                  \
  X(cuEventRecord, "cuEventRecord", cuEventRecord_t)                                           \
  X(cuEventQuery, "cuEventQuery", cuEventQuery_t)                                              \
  X(cuEventSynchronize, "cuEventSynchronize", cuEventSynchronize_t)                            \
  X(cuEventElapsedTime, "cuEventElapsedTime", cuEventElapsedTime_t)                            \
  X(cuLaunchKernel, "cuLaunchKernel", cuLaunchKernel_t)

// Functions that an older or simulated driver may lack; the member is then null.
#define HEADGATE_LOAD_DRIVER_OPTIONAL(X)                                                                         \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", cuLaunchKernelEx_t)                                                    \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", cuLaunchCooperativeKernel_t)                         \
  X(cuLaunchKernel_ptsz, "cuLaunchKernel_ptsz", cuLaunchKernel_ptsz_t)                                           \
  X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx_ptsz", cuLaunchKernelEx_ptsz_t)                                     \
  X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel_ptsz", cuLaunchCooperativeKernel_ptsz_t)          \
  X(cuMemAllocAsync, "cuMemAllocAsync", cuMemAllocAsync_t)                                                       \
  X(cuMemFreeAsync, "cuMemFreeAsync", cuMemFreeAsync_t)                                                          \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", cuStreamBeginCapture_v2_t)                                  \
  X(cuStreamEndCapture, "cuStreamEndCapture", cuStreamEndCapture_t)                                              \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode_t) \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", graph_instantiate_fn)                                     \
  X(cuGraphLaunch, "cuGraphLaunch", cuGraphLaunch_t)                                                             \
  X(cuGraphLaunch_ptsz, "cuGraphLaunch_ptsz", cuGraphLaunch_ptsz_t)                                              \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", graph_exec_destroy_fn)                                             \
  X(cuGraphDestroy, "cuGraphDestroy", graph_destroy_fn)                                                          \
  X(cuGetProcAddress, "cuGetProcAddress_v2", cuGetProcAddress_v2_t)                                              \
  X(cuDriverGetVersion, "cuDriverGetVersion", driver_version_fn)

// Signatures from CUDA 13.0's cuda.h; the table has only the names.
using graph_instantiate_fn = CUresult(CUgraphExec*, CUgraph, unsigned long long flags);
using graph_exec_destroy_fn = CUresult(CUgraphExec);
using graph_destroy_fn = CUresult(CUgraph);
using driver_version_fn = CUresult(int*);

struct Driver {
#define X(member, name, type) type* member = nullptr;
  HEADGATE_LOAD_DRIVER(X)
  HEADGATE_LOAD_DRIVER_OPTIONAL(X)
#undef X
  void* library = nullptr;  // never closed: a driver's threads outlive dlclose
};

// Loads libcuda.so.1 and resolves all functions above. Errors: unreachable, naming the library or the missing function.
[[nodiscard]] Result<Driver> open_driver();

// Returns "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)" for known results, "cuMemAlloc: 123" for others.
[[nodiscard]] std::string words_for(const char* call, CUresult result);

// Succeeds for CUDA_SUCCESS. Errors, with words_for(): denied for CUDA_ERROR_NOT_PERMITTED, failed for the rest.
[[nodiscard]] Result<void> check(const char* call, CUresult result);

}  // namespace headgate::load
