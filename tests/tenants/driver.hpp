// The CUDA driver as a client program reaches it, in one of four ways that many tests compare.
//
//   linked   the program is linked against libcuda (tenant-*-linked)
//   dlopen   dlopen("libcuda.so.1") and dlsym on its handle
//   global   dlopen with RTLD_GLOBAL, then dlsym(RTLD_DEFAULT)
//   proc     dlopen, dlsym of cuGetProcAddress only, everything else through it
#pragma once

#include <string>

#include "guest/abi/cuda.hpp"

namespace headgate::tenant {

// The table has only this function's name, not its signature.
using cuIpcGetMemHandle_t = abi::CUresult(abi::CUipcMemHandle* handle, abi::CUdeviceptr pointer);

// clang-format off
#define TENANT_CALLS(CALL) \
  CALL(cuInit) \
  CALL(cuDriverGetVersion) \
  CALL(cuDeviceGetCount) \
  CALL(cuDeviceGet) \
  CALL(cuDeviceGetName) \
  CALL(cuDeviceTotalMem_v2) \
  CALL(cuDevicePrimaryCtxRetain) \
  CALL(cuDevicePrimaryCtxRelease_v2) \
  CALL(cuCtxSetCurrent) \
  CALL(cuCtxSynchronize) \
  CALL(cuGetErrorName) \
  CALL(cuMemGetInfo_v2) \
  CALL(cuMemAlloc_v2) \
  CALL(cuMemFree_v2) \
  CALL(cuMemAllocManaged) \
  CALL(cuMemHostAlloc) \
  CALL(cuMemHostGetDevicePointer_v2) \
  CALL(cuMemFreeHost) \
  CALL(cuMemcpyHtoD_v2) \
  CALL(cuMemcpyDtoH_v2) \
  CALL(cuMemcpyDtoD_v2) \
  CALL(cuMemcpyHtoDAsync_v2) \
  CALL(cuMemcpyDtoHAsync_v2) \
  CALL(cuMemsetD8_v2) \
  CALL(cuModuleLoadData) \
  CALL(cuModuleGetFunction) \
  CALL(cuModuleUnload) \
  CALL(cuLaunchKernel) \
  CALL(cuStreamCreate) \
  CALL(cuStreamSynchronize) \
  CALL(cuStreamQuery) \
  CALL(cuStreamDestroy_v2) \
  CALL(cuIpcOpenMemHandle_v2)
// clang-format on

struct Driver {
#define CALL(name) abi::name##_t* name = nullptr;
  TENANT_CALLS(CALL)
#undef CALL
  cuIpcGetMemHandle_t* cuIpcGetMemHandle = nullptr;
};

// Uses this build's default way if `road` is empty. On failure prints one line of JSON with the reason and exits 3.
[[nodiscard]] Driver reach_driver(const std::string& road);

// Returns e.g. "CUDA_SUCCESS". From our own table, because it must not depend on the driver under test.
[[nodiscard]] std::string result_name(abi::CUresult result);

}  // namespace headgate::tenant
