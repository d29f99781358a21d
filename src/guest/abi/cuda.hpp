// Our own declarations of the CUDA driver API: the types and enumerators that headgate uses, and no more.
//
// Every fact is from CUDA 13.0's cuda.h; cuda_abi_check.cpp compares sizes, offsets, enumerators and signatures with
// the real header where one is installed. Types keep the driver's names, inside namespace headgate::abi.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::abi {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUdeviceptr_v1 = unsigned;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUlibrary = struct CUlib_st*;
using CUgreenCtx = struct CUgreenCtx_st*;
using CUarray = struct CUarray_st*;
using CUmipmappedArray = struct CUmipmappedArray_st*;
using CUmemoryPool = struct CUmemPool_st*;
using CUexternalMemory = struct CUextMem_st*;
using CUexternalSemaphore = struct CUextSemaphore_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphicsResource = struct CUgraphicsResource_st*;
using CUlinkState = struct CUlinkState_st*;
using CUdevResourceDesc = struct CUdevResourceDesc_st*;
using CUkernel = struct CUkern_st*;
using CUmemGenericAllocationHandle = unsigned long long;
using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;

struct CUuuid {
  char bytes[16];
};
struct CUipcMemHandle {
  char reserved[64];
};
struct CUipcEventHandle {
  char reserved[64];
};

enum CUresult : unsigned {
#define CU_RESULT(value, name) name = (value),
#include "guest/abi/cuda_values.def"
};

enum CUdevice_attribute : unsigned {
#define CU_ATTRIBUTE(value, name) CU_DEVICE_ATTRIBUTE_##name = (value),
#include "guest/abi/cuda_values.def"
};

enum CUlimit : unsigned {};
enum CUfunction_attribute : unsigned {};
enum CUpointer_attribute : unsigned {};
enum CUstreamCaptureMode : unsigned {};
enum CUstreamCaptureStatus : unsigned {};
enum CUlaunchAttributeID : unsigned {};
enum CUgraphNodeType : unsigned {};
enum CUdriverProcAddressQueryResult : unsigned {};
enum CUmemAllocationHandleType : unsigned {};
enum CUmemAllocationType : unsigned {};
enum CUmemAccess_flags : unsigned {};
enum CUmemAllocationGranularity_flags : unsigned {};
enum CUmemPool_attribute : unsigned {};
enum CUmem_advise : unsigned {};
enum CUgraphMem_attribute : unsigned {};
enum CUfunc_cache : unsigned {};
enum CUsharedconfig : unsigned {};
enum CUfunctionLoadingState : unsigned {};
enum CUmoduleLoadingMode : unsigned {};
enum CUprocessState : unsigned {};
enum CUjit_option : unsigned {};
enum CUlibraryOption : unsigned {};

#define CU_VALUE(type, value, name) inline constexpr type name{value};
#include "guest/abi/cuda_values.def"

struct CUmemLocation {
  unsigned type;  // CUmemLocationType: 1 = device
  int id;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

struct CUmemPoolProps {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;  // 0: the system's default
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUdevprop {
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int sharedMemPerBlock;
  int totalConstantMemory;
  int SIMDWidth;
  int memPitch;
  int regsPerBlock;
  int clockRate;
  int textureAlign;
};

struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[4];
  union {
    char bytes[64];
    int cooperative;
    int programmaticStreamSerializationAllowed;
    int priority;
    struct {
      CUevent event;
      int flags;
      int triggerAtBlockStart;
    } programmaticEvent;
  } value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

// One device's part of cuLaunchCooperativeKernelMultiDevice.
struct CUDA_LAUNCH_PARAMS {
  CUfunction function;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  void** kernelParams;
};

// CUDA_KERNEL_NODE_PARAMS_v2.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};

// CUDA_MEM_ALLOC_NODE_PARAMS, both versions.
struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const CUmemAccessDesc* accessDescs;
  std::size_t accessDescCount;
  std::size_t bytesize;
  CUdeviceptr dptr;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  cuuint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  unsigned result_out;
};

// Pseudo handles: cuda.h's CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
inline CUstream stream_legacy() { return reinterpret_cast<CUstream>(0x1); }
inline CUstream stream_per_thread() { return reinterpret_cast<CUstream>(0x2); }

using CUhostFn = void (*)(void* userData);
using CUstreamCallback = void (*)(CUstream stream, CUresult status, void* userData);

// Used through pointers only, so the layouts are not declared.
struct CUDA_ARRAY_DESCRIPTOR;
struct CUDA_ARRAY_DESCRIPTOR_v1;
struct CUDA_ARRAY3D_DESCRIPTOR;
struct CUDA_ARRAY3D_DESCRIPTOR_v1;
struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS;
struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS;
struct CUDA_MEMCPY2D;
struct CUDA_MEMCPY2D_v1;
struct CUDA_MEMCPY3D;
struct CUDA_MEMCPY3D_v1;
struct CUDA_MEMCPY3D_BATCH_OP;
struct CUDA_MEMCPY3D_PEER;
struct CUarrayMapInfo;
struct CUcheckpointCheckpointArgs;
struct CUcheckpointLockArgs;
struct CUcheckpointRestoreArgs;
struct CUcheckpointUnlockArgs;
struct CUctxCreateParams;
struct CUexecAffinityParam;
struct CUgraphEdgeData;
struct CUgraphNodeParams;
struct CUmemAllocationProp;
struct CUmemDecompressParams;
struct CUmemPoolPtrExportData;
struct CUmemcpyAttributes;
struct CUmulticastObjectProp;
struct CUstreamBatchMemOpParams;

// Function types: cuMemAlloc_v2_t and so on, one for each CU_FN of the table.
#define CU_FN(name, kind, since, parameters, arguments) using name##_t = CUresult parameters;
#include "guest/abi/cuda_table.def"

}  // namespace headgate::abi
