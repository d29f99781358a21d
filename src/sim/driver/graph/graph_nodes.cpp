// Nodes of each type: adding them, and reading and setting their parameters.
#include <cstring>

#include "sim/driver/graph/graph_add.hpp"
#include "sim/driver/graph/graph_conditional.hpp"
#include "sim/driver/graph/graph_memory.hpp"
namespace headgate::sim::driver {
namespace {

template <typename Make>
CUresult set(CUgraphNode handle, NodeType type, const Make& make) {
  SIM_GET(GraphNode, node, node_of_type(handle, type, &node));
  Work work;
  SIM_TRY(make(&work));
  if (auto* kernel = std::get_if<KernelWork>(&work)) kernel->attributes = std::get<KernelWork>(node->work).attributes;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

void tell_kernel(const KernelWork& work, KernelNodeParamsV1* out) {
  out->func = work.function;
  std::memcpy(out->grid, work.shape.grid, sizeof out->grid);
  std::memcpy(out->block, work.shape.block, sizeof out->block);
  out->shared = work.shape.shared;
  out->parameters = work.parameters.empty() ? nullptr : const_cast<void**>(work.parameters.data());
  out->extra = nullptr;
}

CUresult get_kernel(CUgraphNode handle, KernelNodeParamsV1* out, KernelNodeParams* second) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(GraphNode, node, node_of_type(handle, NodeType::kernel, &node));
  tell_kernel(std::get<KernelWork>(node->work), out);
  if (second != nullptr) {
    second->kern = nullptr;
    second->context = reinterpret_cast<CUcontext>(context_of(node->work));
  }
  return CUDA_SUCCESS;
}

CUresult attribute(CUgraphNode handle, unsigned id, void* value, bool write) {
  if (!value || id == 0 || id > 16) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(GraphNode, node, node_of_type(handle, NodeType::kernel, &node));
  auto& attributes = std::get<KernelWork>(node->work).attributes;
  if (write) {
    std::memcpy(attributes[id].data(), value, sizeof(Attribute));
    return CUDA_SUCCESS;
  }
  const auto found = attributes.find(id);
  if (found == attributes.end()) std::memset(value, 0, sizeof(Attribute));
  else std::memcpy(value, found->second.data(), sizeof(Attribute));
  return CUDA_SUCCESS;
}

CUevent event_handle(const Work& work) { return reinterpret_cast<CUevent>(std::get<EventWork>(work).event); }

CUresult add_any(CUgraphNode* out, CUgraph graph, const CUgraphNode* behind, const EdgeData* data, std::size_t count,
                 AnyNodeParams* params) {
  if (!params || params->reserved2 != 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(
      add_to_graph(out, graph, behind, data, count, params->type, [&](Work* work) { return any_work(*params, work); }));
  SIM_GET(GraphNode, node, resolve(*out, &node));
  // Returns the graph, or the address, that the node owns.
  if (const auto* child = std::get_if<ChildWork>(&node->work))
    params->child.graph = reinterpret_cast<CUgraph>(child->graph);
  if (const auto* chooses = std::get_if<ConditionalWork>(&node->work))
    params->conditional.bodies = chooses->conditional->told.data();
  if (const auto* made = std::get_if<AllocateWork>(&node->work)) params->allocate.address = made->memory->told.address;
  return CUDA_SUCCESS;
}

}  // namespace

#define SIM_ADD(name, given, type, made)                                                                         \
  SIM_API CUresult name(CUgraphNode* out, CUgraph graph, const CUgraphNode* behind, std::size_t count, given) {  \
    SIM_ENTER(name);                                                                                             \
    return add_to_graph(out, graph, behind, nullptr, count, type, [&](Work* work) -> CUresult { return made; }); \
  }

SIM_ADD(cuGraphAddKernelNode, const KernelNodeParamsV1* given, NodeType::kernel, kernel_work(given, work))
SIM_ADD(cuGraphAddKernelNode_v2, const KernelNodeParams* given, NodeType::kernel, kernel_work(given, work))
SIM_ADD(cuGraphAddHostNode, const HostNodeParams* given, NodeType::host, host_work(given, work))
SIM_ADD(cuGraphAddChildGraphNode, CUgraph child, NodeType::child, child_work(child, false, work))
SIM_ADD(cuGraphAddEventRecordNode, CUevent event, NodeType::record_event, event_work(event, work))
SIM_ADD(cuGraphAddEventWaitNode, CUevent event, NodeType::wait_event, event_work(event, work))

SIM_CALL(cuGraphAddMemcpyNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count, const CopyParams* given,
          CUcontext context),
         add_to_graph(out, graph, behind, nullptr, count, NodeType::copy,
                      [&](Work* work) { return copy_work(given, context, work); }))
SIM_CALL(cuGraphAddMemsetNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count, const FillNodeParams* given,
          CUcontext context),
         add_to_graph(out, graph, behind, nullptr, count, NodeType::fill,
                      [&](Work* work) { return fill_work(given, context, work); }))
SIM_CALL(cuGraphAddEmptyNode, (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count),
         add_to_graph(out, graph, behind, nullptr, count, NodeType::empty, [](Work*) { return CUDA_SUCCESS; }))
SIM_CALL(cuGraphAddNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count, AnyNodeParams* params),
         add_any(out, graph, behind, nullptr, count, params))
SIM_CALL(cuGraphAddNode_v2,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, const EdgeData* data, std::size_t count,
          AnyNodeParams* params),
         add_any(out, graph, behind, data, count, params))
SIM_API CUresult cuGraphNodeSetParams(CUgraphNode handle, AnyNodeParams* params) {
  SIM_ENTER(cuGraphNodeSetParams, params);
  SIM_GET(GraphNode, node, resolve(handle, &node));
  if (params->type == NodeType::child || params->type == NodeType::allocate || params->type == NodeType::free ||
      params->type == NodeType::conditional)
    return CUDA_ERROR_NOT_SUPPORTED;
  return set(handle, params->type, [&](Work* work) { return any_work(*params, work); });
}

SIM_CALL(cuGraphKernelNodeGetParams, (CUgraphNode node, KernelNodeParamsV1* out), get_kernel(node, out, nullptr))
SIM_CALL(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, KernelNodeParams* out), get_kernel(node, out, out))
SIM_CALL(cuGraphKernelNodeSetParams, (CUgraphNode node, const KernelNodeParamsV1* given),
         set(node, NodeType::kernel, [&](Work* work) { return kernel_work(given, work); }))
SIM_CALL(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const KernelNodeParams* given),
         set(node, NodeType::kernel, [&](Work* work) { return kernel_work(given, work); }))
SIM_CALL(cuGraphKernelNodeGetAttribute, (CUgraphNode node, unsigned id, void* value), attribute(node, id, value, false))
SIM_CALL(cuGraphKernelNodeSetAttribute, (CUgraphNode node, unsigned id, const void* value),
         attribute(node, id, const_cast<void*>(value), true))
SIM_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  SIM_ENTER(cuGraphKernelNodeCopyAttributes);
  GraphNode *target = nullptr, *source = nullptr;
  SIM_TRY(node_of_type(to, NodeType::kernel, &target));
  SIM_TRY(node_of_type(from, NodeType::kernel, &source));
  std::get<KernelWork>(target->work).attributes = std::get<KernelWork>(source->work).attributes;
  return CUDA_SUCCESS;
}

SIM_CALL(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CopyParams* out),
         ask_node(node, NodeType::copy, out, &CopyWork::copy))
SIM_CALL(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CopyParams* given),
         set(node, NodeType::copy, [&](Work* work) { return copy_work(given, nullptr, work); }))
SIM_CALL(cuGraphMemsetNodeGetParams, (CUgraphNode node, FillNodeParams* out),
         ask_node(node, NodeType::fill, out, &FillWork::fill))
SIM_CALL(cuGraphMemsetNodeSetParams, (CUgraphNode node, const FillNodeParams* given),
         set(node, NodeType::fill, [&](Work* work) { return fill_work(given, nullptr, work); }))
SIM_CALL(cuGraphHostNodeGetParams, (CUgraphNode node, HostNodeParams* out),
         ask_node(node, NodeType::host, out, [](const Work& work) { return std::get<HostNodeParams>(work); }))
SIM_CALL(cuGraphHostNodeSetParams, (CUgraphNode node, const HostNodeParams* given),
         set(node, NodeType::host, [&](Work* work) { return host_work(given, work); }))
SIM_CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* out),
         ask_node(node, NodeType::child, out,
                  [](const Work& work) { return reinterpret_cast<CUgraph>(std::get<ChildWork>(work).graph); }))
SIM_CALL(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent* out),
         ask_node(node, NodeType::record_event, out, event_handle))
SIM_CALL(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
         set(node, NodeType::record_event, [&](Work* work) { return event_work(event, work); }))
SIM_CALL(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent* out),
         ask_node(node, NodeType::wait_event, out, event_handle))
SIM_CALL(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
         set(node, NodeType::wait_event, [&](Work* work) { return event_work(event, work); }))

}  // namespace headgate::sim::driver
