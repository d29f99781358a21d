// Structures that graph calls pass by pointer, as far as the simulator reads them (CUDA 13.0). See graph_abi_check.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::sim::driver {

using namespace headgate::abi;

enum class NodeType : unsigned {
  kernel = 0,
  copy = 1,
  fill = 2,
  host = 3,
  child = 4,
  empty = 5,
  wait_event = 6,
  record_event = 7,
  signal_semaphores = 8,
  wait_semaphores = 9,
  allocate = 10,
  free = 11,
  batch = 12,
  conditional = 13,
};

// CUgraphEdgeData.
struct EdgeData {
  std::uint8_t from_port = 0, to_port = 0, type = 0;
  std::uint8_t reserved[5] = {};
  friend bool operator==(const EdgeData&, const EdgeData&) = default;
};
inline constexpr std::uint8_t kProgrammaticEdge = 1, kProgrammaticPort = 1, kLaunchOrderPort = 2;

// CUDA_KERNEL_NODE_PARAMS_v1, and the fields that version 2 adds.
struct KernelNodeParamsV1 {
  CUfunction func;
  unsigned grid[3], block[3], shared;
  void** parameters;
  void** extra;
};
struct KernelNodeParams : KernelNodeParamsV1 {
  CUkernel kern;
  CUcontext context;
};

// CUDA_MEMCPY3D_v2 and CUDA_MEMCPY3D_PEER. `extra` is null in the former, a context in the latter.
struct CopyEnd {
  std::size_t x, y, z, lod;  // x in bytes
  unsigned type;             // CUmemorytype: 1 host, 2 device, 3 array, 4 unified
  const void* host;
  CUdeviceptr device;
  CUarray array;
  void* extra;
  std::size_t pitch, height;
};
struct CopyParams {
  CopyEnd from, to;
  std::size_t width, height, depth;  // width in bytes
};
static_assert(sizeof(CopyParams) == 200);

// CUDA_MEMSET_NODE_PARAMS_v1; version 2 has a context at the end.
struct FillNodeParams {
  CUdeviceptr to;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};

struct HostNodeParams {
  CUhostFn function;
  void* data;
};

// CUDA_MEM_ALLOC_NODE_PARAMS, both versions.
struct AllocateNodeParams {
  CUmemPoolProps pool;
  const CUmemAccessDesc* access;
  std::size_t access_count;
  std::size_t bytes;
  CUdeviceptr address;  // out
};

// CUDA_BATCH_MEM_OP_NODE_PARAMS, both versions, and the word operations of CUstreamBatchMemOpParams.
struct ValueOperation {
  std::uint32_t type;  // CUstreamBatchMemOpType
  CUdeviceptr address;
  std::uint64_t value;
  std::uint32_t flags;
  std::uint64_t rest[2];
};
struct BatchNodeParams {
  CUcontext context;
  unsigned count;
  ValueOperation* operations;
  unsigned flags;
};

// CUDA_CONDITIONAL_NODE_PARAMS.
struct ConditionalNodeParams {
  cuuint64_t handle;
  unsigned type;  // CUgraphConditionalNodeType: 0 if, 1 while, 2 switch
  unsigned size;
  CUgraph* bodies;  // out
  CUcontext context;
};

// CUgraphNodeParams.
struct AnyNodeParams {
  NodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    KernelNodeParams kernel;
    struct {
      int flags, reserved;
      CUcontext context;
      CopyParams copy;
    } copy;
    struct {
      FillNodeParams fill;
      CUcontext context;
    } fill;
    HostNodeParams host;
    struct {
      CUgraph graph;
      unsigned ownership;
    } child;
    CUevent event;
    AllocateNodeParams allocate;
    CUdeviceptr free;
    BatchNodeParams batch;
    ConditionalNodeParams conditional;
  };
  long long reserved2;
};

// CUDA_GRAPH_INSTANTIATE_PARAMS.
struct InstantiateParams {
  cuuint64_t flags;
  CUstream upload_stream;
  CUgraphNode error_node;
  unsigned result;
};

// CUgraphExecUpdateResultInfo.
struct UpdateResultInfo {
  unsigned result;
  CUgraphNode error_node, error_from_node;
};

}  // namespace headgate::sim::driver
