// The graph calls that test programs look up.
#pragma once

#include <dlfcn.h>

#include <stdexcept>

#include "sim/driver/graph/graph_abi.hpp"

namespace headgate::sim {

using namespace headgate::abi;
using driver::AllocateNodeParams;
using driver::AnyNodeParams;
using driver::BatchNodeParams;
using driver::CopyParams;
using driver::EdgeData;
using driver::FillNodeParams;
using driver::HostNodeParams;
using driver::InstantiateParams;
using driver::KernelNodeParams;
using driver::NodeType;
using driver::UpdateResultInfo;
using driver::ValueOperation;

#define HEADGATE_GRAPH_CALLS(CALL)                                                                                   \
  CALL(cuGraphCreate, (CUgraph*, unsigned))                                                                          \
  CALL(cuGraphDestroy, (CUgraph))                                                                                    \
  CALL(cuGraphClone, (CUgraph*, CUgraph))                                                                            \
  CALL(cuGraphNodeFindInClone, (CUgraphNode*, CUgraphNode, CUgraph))                                                 \
  CALL(cuGraphDestroyNode, (CUgraphNode))                                                                            \
  CALL(cuGraphAddKernelNode_v2, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const KernelNodeParams*))   \
  CALL(cuGraphAddMemcpyNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CopyParams*, CUcontext)) \
  CALL(cuGraphAddMemsetNode,                                                                                         \
       (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const FillNodeParams*, CUcontext))                   \
  CALL(cuGraphAddHostNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const HostNodeParams*))          \
  CALL(cuGraphAddChildGraphNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph))                  \
  CALL(cuGraphAddEmptyNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t))                                \
  CALL(cuGraphAddEventRecordNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUevent))                 \
  CALL(cuGraphAddEventWaitNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUevent))                   \
  CALL(cuGraphAddMemAllocNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, AllocateNodeParams*))        \
  CALL(cuGraphAddMemFreeNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUdeviceptr))                 \
  CALL(cuGraphMemAllocNodeGetParams, (CUgraphNode, AllocateNodeParams*))                                             \
  CALL(cuGraphMemFreeNodeGetParams, (CUgraphNode, CUdeviceptr*))                                                     \
  CALL(cuGraphConditionalHandleCreate, (cuuint64_t*, CUgraph, CUcontext, unsigned, unsigned))                        \
  CALL(cuGraphAddBatchMemOpNode, (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const BatchNodeParams*))   \
  CALL(cuGraphBatchMemOpNodeGetParams, (CUgraphNode, BatchNodeParams*))                                              \
  CALL(cuGraphExecBatchMemOpNodeSetParams, (CUgraphExec, CUgraphNode, const BatchNodeParams*))                       \
  CALL(cuUserObjectCreate, (void**, void*, CUhostFn, unsigned, unsigned))                                            \
  CALL(cuUserObjectRetain, (void*, unsigned))                                                                        \
  CALL(cuUserObjectRelease, (void*, unsigned))                                                                       \
  CALL(cuGraphRetainUserObject, (CUgraph, void*, unsigned, unsigned))                                                \
  CALL(cuGraphReleaseUserObject, (CUgraph, void*, unsigned))                                                         \
  CALL(cuGraphAddNode_v2, (CUgraphNode*, CUgraph, const CUgraphNode*, const EdgeData*, std::size_t, AnyNodeParams*)) \
  CALL(cuGraphAddDependencies, (CUgraph, const CUgraphNode*, const CUgraphNode*, std::size_t))                       \
  CALL(cuGraphRemoveDependencies, (CUgraph, const CUgraphNode*, const CUgraphNode*, std::size_t))                    \
  CALL(cuGraphGetNodes, (CUgraph, CUgraphNode*, std::size_t*))                                                       \
  CALL(cuGraphGetRootNodes, (CUgraph, CUgraphNode*, std::size_t*))                                                   \
  CALL(cuGraphGetEdges, (CUgraph, CUgraphNode*, CUgraphNode*, std::size_t*))                                         \
  CALL(cuGraphGetEdges_v2, (CUgraph, CUgraphNode*, CUgraphNode*, EdgeData*, std::size_t*))                           \
  CALL(cuGraphNodeGetDependencies, (CUgraphNode, CUgraphNode*, std::size_t*))                                        \
  CALL(cuGraphNodeGetDependentNodes, (CUgraphNode, CUgraphNode*, std::size_t*))                                      \
  CALL(cuGraphNodeGetType, (CUgraphNode, NodeType*))                                                                 \
  CALL(cuGraphKernelNodeGetParams_v2, (CUgraphNode, KernelNodeParams*))                                              \
  CALL(cuGraphKernelNodeSetParams_v2, (CUgraphNode, const KernelNodeParams*))                                        \
  CALL(cuGraphKernelNodeGetAttribute, (CUgraphNode, unsigned, void*))                                                \
  CALL(cuGraphKernelNodeSetAttribute, (CUgraphNode, unsigned, const void*))                                          \
  CALL(cuGraphMemcpyNodeGetParams, (CUgraphNode, CopyParams*))                                                       \
  CALL(cuGraphMemsetNodeGetParams, (CUgraphNode, FillNodeParams*))                                                   \
  CALL(cuGraphHostNodeGetParams, (CUgraphNode, HostNodeParams*))                                                     \
  CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph*))                                                       \
  CALL(cuGraphEventRecordNodeGetEvent, (CUgraphNode, CUevent*))                                                      \
  CALL(cuGraphEventWaitNodeGetEvent, (CUgraphNode, CUevent*))                                                        \
  CALL(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))                                     \
  CALL(cuGraphInstantiateWithParams, (CUgraphExec*, CUgraph, InstantiateParams*))                                    \
  CALL(cuGraphInstantiate_v2, (CUgraphExec*, CUgraph, CUgraphNode*, char*, std::size_t))                             \
  CALL(cuGraphExecDestroy, (CUgraphExec))                                                                            \
  CALL(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, UpdateResultInfo*))                                              \
  CALL(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const KernelNodeParams*))                       \
  CALL(cuGraphExecChildGraphNodeSetParams, (CUgraphExec, CUgraphNode, CUgraph))                                      \
  CALL(cuGraphNodeSetEnabled, (CUgraphExec, CUgraphNode, unsigned))                                                  \
  CALL(cuGraphLaunch, (CUgraphExec, CUstream))                                                                       \
  CALL(cuGraphUpload, (CUgraphExec, CUstream))                                                                       \
  CALL(cuStreamGetCaptureInfo_v3,                                                                                    \
       (CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, const EdgeData**, std::size_t*))

// Looked up with dlsym in an open library.
struct GraphCalls {
  // NOLINTBEGIN(bugprone-macro-parentheses): names declared and lists of parameters
#define HEADGATE_GRAPH_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  HEADGATE_GRAPH_CALLS(HEADGATE_GRAPH_MEMBER)

  explicit GraphCalls(void* library) {
#define HEADGATE_GRAPH_FIND(name, parameters)                               \
  name = reinterpret_cast<CUresult(*) parameters>(::dlsym(library, #name)); \
  if (name == nullptr) throw std::runtime_error(#name " is missing");
    HEADGATE_GRAPH_CALLS(HEADGATE_GRAPH_FIND)
  }
  // NOLINTEND(bugprone-macro-parentheses)
};

}  // namespace headgate::sim
