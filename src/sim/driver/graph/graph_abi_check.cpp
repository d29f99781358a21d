// Compares graph_abi.hpp with the real cuda.h. Built only where one is installed; no code.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "sim/driver/graph/graph_abi.hpp"

// A derived structure is laid out as if it had its base's members, although the standard does not promise it.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace sim = headgate::sim::driver;

#define SAME_SIZE(name, own) static_assert(sizeof(::name) == sizeof(sim::own))
#define SAME_PLACE(name, member, own, own_member) \
  static_assert(offsetof(::name, member) == offsetof(sim::own, own_member))

SAME_SIZE(CUgraphEdgeData, EdgeData);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS_v1, KernelNodeParamsV1);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS_v2, KernelNodeParams);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, gridDimX, KernelNodeParamsV1, grid);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, blockDimX, KernelNodeParamsV1, block);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes, KernelNodeParamsV1, shared);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams, KernelNodeParamsV1, parameters);
static_assert(offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, kern) == sizeof(sim::KernelNodeParamsV1));
SAME_SIZE(CUDA_MEMCPY3D_v2, CopyParams);
SAME_PLACE(CUDA_MEMCPY3D_v2, srcMemoryType, CopyParams, from.type);
SAME_PLACE(CUDA_MEMCPY3D_v2, srcPitch, CopyParams, from.pitch);
SAME_PLACE(CUDA_MEMCPY3D_v2, dstXInBytes, CopyParams, to);
SAME_PLACE(CUDA_MEMCPY3D_v2, WidthInBytes, CopyParams, width);
SAME_SIZE(CUDA_MEMSET_NODE_PARAMS_v1, FillNodeParams);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, elementSize, FillNodeParams, element_bytes);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, width, FillNodeParams, width);
SAME_SIZE(CUDA_HOST_NODE_PARAMS_v2, HostNodeParams);
SAME_SIZE(CUDA_MEM_ALLOC_NODE_PARAMS, AllocateNodeParams);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs, AllocateNodeParams, access);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize, AllocateNodeParams, bytes);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, dptr, AllocateNodeParams, address);
SAME_SIZE(CUstreamBatchMemOpParams, ValueOperation);
SAME_PLACE(CUstreamBatchMemOpParams, waitValue.address, ValueOperation, address);
SAME_PLACE(CUstreamBatchMemOpParams, writeValue.value64, ValueOperation, value);
SAME_PLACE(CUstreamBatchMemOpParams, writeValue.flags, ValueOperation, flags);
SAME_SIZE(CUDA_BATCH_MEM_OP_NODE_PARAMS, BatchNodeParams);
SAME_PLACE(CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray, BatchNodeParams, operations);
SAME_SIZE(CUDA_CONDITIONAL_NODE_PARAMS, ConditionalNodeParams);
SAME_PLACE(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out, ConditionalNodeParams, bodies);
SAME_PLACE(CUDA_CONDITIONAL_NODE_PARAMS, ctx, ConditionalNodeParams, context);
SAME_SIZE(CUgraphNodeParams, AnyNodeParams);
SAME_PLACE(CUgraphNodeParams, alloc, AnyNodeParams, allocate);
SAME_PLACE(CUgraphNodeParams, free, AnyNodeParams, free);
SAME_PLACE(CUgraphNodeParams, kernel, AnyNodeParams, kernel);
SAME_PLACE(CUgraphNodeParams, memcpy.copyParams, AnyNodeParams, copy.copy);
SAME_PLACE(CUgraphNodeParams, memset.ctx, AnyNodeParams, fill.context);
SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, InstantiateParams);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out, InstantiateParams, error_node);
SAME_SIZE(CUgraphExecUpdateResultInfo, UpdateResultInfo);
static_assert(CU_GRAPH_NODE_TYPE_EVENT_RECORD == static_cast<unsigned>(sim::NodeType::record_event));
static_assert(CU_GRAPH_NODE_TYPE_CONDITIONAL == static_cast<unsigned>(sim::NodeType::conditional));
static_assert(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC == sim::kProgrammaticEdge &&
              CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC == sim::kProgrammaticPort);
