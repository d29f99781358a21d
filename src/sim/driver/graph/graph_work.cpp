// Converts a call's parameters into a node's copy of them, and that copy into engine commands.
#include <cstring>

#include "sim/driver/context/context_growth.hpp"
#include "sim/driver/graph/graph.hpp"
#include "sim/driver/graph/graph_conditional.hpp"
#include "sim/driver/graph/graph_memory.hpp"
#include "sim/driver/memory/copy.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

void point_into_block(KernelWork* work) {
  const Function* function = object<Function>(work->function);
  work->parameters.clear();
  if (!function) return;
  for (const auto& parameter : function->entry->parameters)
    work->parameters.push_back(work->block.data() + parameter.offset_bytes);
}

CUresult prepare_copy(const CopyParams& given, Prepared* out) {
  PreparedCopy prepared;
  SIM_TRY(prepare_box(given, &prepared));
  out->command.kind = prepared.kind;
  out->command.amount = prepared.bytes;
  out->act = std::move(prepared.act);
  return CUDA_SUCCESS;
}

CUresult prepare_fill(const FillNodeParams& fill, Prepared* out) {
  SIM_TRY(check_fill(fill));
  out->command.kind = CommandKind::copy_on_device;
  out->command.amount = fill.width * fill.element_bytes * fill.height;
  out->act = [fill] { run_fill(fill); };
  return CUDA_SUCCESS;
}

CUresult prepare_node_kernel(const KernelWork& kernel, Prepared* out) {
  Function* function = object<Function>(kernel.function);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(make_ready(function));
  KernelCommand prepared;
  SIM_TRY(prepare_kernel(function, kernel.shape, const_cast<void**>(kernel.parameters.data()), nullptr, &prepared));
  out->command = prepared.command;
  if (prepared.word != 0) out->act = sets_word(prepared.word);
  return CUDA_SUCCESS;
}

CUresult kernel_of(const KernelNodeParamsV1& given, CUkernel kern, CUcontext handle, Work* out) {
  if (given.parameters && given.extra) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  Function* function = nullptr;
  if (given.func == nullptr) {
    if (kern == nullptr) return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(context_or_current(handle, &context));
    SIM_TRY(function_in(reinterpret_cast<CUfunction>(kern), context, &function));
  } else if (function_of(given.func, &function) != CUDA_SUCCESS) {
    SIM_TRY(current_context(&context));
    SIM_TRY(function_in(given.func, context, &function));
  }
  const Shape shape{
      {given.grid[0], given.grid[1], given.grid[2]}, {given.block[0], given.block[1], given.block[2]}, given.shared};
  KernelWork work;
  SIM_TRY(captured_kernel(function, shape, given.parameters, given.extra, nullptr, &work));
  return give(out, std::move(work));
}

}  // namespace

KernelWork::KernelWork(const KernelWork& other)
    : function(other.function), shape(other.shape), block(other.block), attributes(other.attributes) {
  for (const void* at : other.parameters)
    parameters.push_back(block.data() + (static_cast<const std::byte*>(at) - other.block.data()));
}
KernelWork& KernelWork::operator=(const KernelWork& other) {
  KernelWork copy(other);
  *this = std::move(copy);
  return *this;
}

CUresult kernel_work(const KernelNodeParamsV1* given, Work* out) {
  return given ? kernel_of(*given, nullptr, nullptr, out) : CUDA_ERROR_INVALID_VALUE;
}
CUresult kernel_work(const KernelNodeParams* given, Work* out) {
  return given ? kernel_of(*given, given->kern, given->context, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult captured_kernel(const Function* function, const Shape& shape, void** parameters, void** extra,
                         const CUlaunchConfig* config, KernelWork* out) {
  KernelCommand checked;
  SIM_TRY(prepare_kernel(function, shape, parameters, extra, &checked));
  out->function = reinterpret_cast<CUfunction>(const_cast<Function*>(function));
  out->shape = shape;
  if (!function->entry->parameters.empty()) SIM_TRY(parameter_block(*function->entry, parameters, extra, &out->block));
  point_into_block(out);
  for (unsigned i = 0; config != nullptr && i < config->numAttrs; ++i)
    std::memcpy(out->attributes[config->attrs[i].id].data(), config->attrs[i].value.bytes, sizeof(Attribute));
  return CUDA_SUCCESS;
}

CUresult copy_work(const CopyParams* given, CUcontext handle, Work* out) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  CopyWork work{*given, nullptr};
  SIM_TRY(context_or_current(handle, &work.context));
  Prepared checked;
  SIM_TRY(prepare_copy(*given, &checked));
  return give(out, work);
}

CUresult fill_work(const FillNodeParams* given, CUcontext handle, Work* out) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  FillWork work{*given, nullptr};
  SIM_TRY(context_or_current(handle, &work.context));
  SIM_TRY(check_fill(*given));
  return give(out, work);
}

CUresult host_work(const HostNodeParams* given, Work* out) {
  if (!given || given->function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give(out, *given);
}

CUresult event_work(CUevent handle, Work* out) {
  EventWork work;
  SIM_TRY(event_of(handle, &work.event));
  return give(out, work);
}

CUresult child_work(CUgraph handle, bool move, Work* out) {
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if (move && graph->owned) return CUDA_ERROR_INVALID_VALUE;
  if (!move && is_unique(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  ChildWork work{move ? graph : clone_graph(graph)};
  work.graph->moved = move;
  work.graph->owned = true;
  return give(out, work);
}

CUresult any_work(const AnyNodeParams& given, Work* out) {
  switch (given.type) {
    case NodeType::kernel: return kernel_work(&given.kernel, out);
    case NodeType::copy:
      if (given.copy.flags != 0 || given.copy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return copy_work(&given.copy.copy, given.copy.context, out);
    case NodeType::fill: return fill_work(&given.fill.fill, given.fill.context, out);
    case NodeType::host: return host_work(&given.host, out);
    case NodeType::child:
      if (given.child.ownership > 1) return CUDA_ERROR_INVALID_VALUE;
      return child_work(given.child.graph, given.child.ownership == 1, out);
    case NodeType::empty: *out = std::monostate{}; return CUDA_SUCCESS;
    case NodeType::wait_event:
    case NodeType::record_event: return event_work(given.event, out);
    case NodeType::signal_semaphores:
    case NodeType::wait_semaphores: return CUDA_ERROR_NOT_SUPPORTED;
    case NodeType::allocate: return allocate_work(given.allocate, out);
    case NodeType::free: return free_work(given.free, out);
    case NodeType::batch: return batch_work(&given.batch, out);
    case NodeType::conditional: return conditional_work(given.conditional, out);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

Context* context_of(const Work& work) {
  if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    const Function* function = object<Function>(kernel->function);
    return function ? function->module->context : nullptr;
  }
  if (const auto* copy = std::get_if<CopyWork>(&work)) return copy->context;
  if (const auto* fill = std::get_if<FillWork>(&work)) return fill->context;
  if (const auto* event = std::get_if<EventWork>(&work)) return event->event->context;
  if (const auto* batch = std::get_if<BatchWork>(&work)) return batch->context;
  if (const auto* chooses = std::get_if<ConditionalWork>(&work)) return chooses->conditional->context;
  return nullptr;
}

CUresult prepare(const Work& work, Prepared* out) {
  if (const auto* kernel = std::get_if<KernelWork>(&work)) return prepare_node_kernel(*kernel, out);
  if (const auto* copy = std::get_if<CopyWork>(&work)) return prepare_copy(copy->copy, out);
  if (const auto* fill = std::get_if<FillWork>(&work)) return prepare_fill(fill->fill, out);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace headgate::sim::driver
