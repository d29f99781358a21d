// Converts a call's parameters into a node's copy of them, and that copy into engine commands.
#include <algorithm>
#include <bit>
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
  const Function* function = object<Function>(work->function, kFunctionWord);
  work->parameters.clear();
  if (!function) return;
  for (const auto& parameter : function->entry->parameters)
    work->parameters.push_back(work->block.data() + parameter.offset_bytes);
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

CUresult kernel_work(const KernelNodeParamsV1& given, CUkernel kern, CUcontext handle, Work* out) {
  if (given.parameters && given.extra) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  Function* function = nullptr;
  if (given.func == nullptr) {
    if (kern == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (handle != nullptr) SIM_TRY(context_of(handle, &context));
    else SIM_TRY(current_context(&context));
    SIM_TRY(function_in(reinterpret_cast<CUfunction>(kern), context, &function));
  } else if (function_of(given.func, &function) != CUDA_SUCCESS) {
    SIM_TRY(current_context(&context));
    SIM_TRY(function_in(given.func, context, &function));
  }
  const Shape shape{
      {given.grid[0], given.grid[1], given.grid[2]}, {given.block[0], given.block[1], given.block[2]}, given.shared};
  KernelWork work;
  SIM_TRY(captured_kernel(function, shape, given.parameters, given.extra, nullptr, &work));
  *out = std::move(work);
  return CUDA_SUCCESS;
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

namespace {

CUresult context_for(CUcontext handle, Context** out) {
  return handle == nullptr ? current_context(out) : context_of(handle, out);
}

CUresult prepare_copy(const CopyParams& given, Prepared* out) {
  PreparedCopy prepared;
  SIM_TRY(prepare_box(std::bit_cast<Copy3D>(given), &prepared));
  out->command.kind = prepared.kind;
  out->command.amount = prepared.bytes;
  out->act = std::move(prepared.act);
  return CUDA_SUCCESS;
}

CUresult prepare_fill(const FillNodeParams& fill, Prepared* out) {
  const std::size_t each = fill.element_bytes;
  if ((each != 1 && each != 2 && each != 4) || fill.width == 0 || fill.height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.width > ~std::size_t{0} / each / fill.height || fill.to % each != 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height > 1 && fill.pitch < fill.width * each) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t span = (fill.height - 1) * fill.pitch + fill.width * each;
  if (!is_device_address(fill.to, span)) return CUDA_ERROR_INVALID_VALUE;
  out->command.kind = CommandKind::copy_on_device;
  out->command.amount = fill.width * each * fill.height;
  out->act = [fill, each, span] {
    for (std::size_t row = 0; row < fill.height; ++row) {
      for (std::size_t i = 0; i < fill.width; ++i)
        std::memcpy(reinterpret_cast<std::byte*>(fill.to + row * fill.pitch) + i * each, &fill.value, each);
    }
    refresh_flags(fill.to, span);
  };
  return CUDA_SUCCESS;
}

CUresult prepare_node_kernel(const KernelWork& kernel, Prepared* out) {
  Function* function = object<Function>(kernel.function, kFunctionWord);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(make_ready(function));
  KernelCommand prepared;
  SIM_TRY(prepare_kernel(function, kernel.shape, const_cast<void**>(kernel.parameters.data()), nullptr, &prepared));
  out->command = prepared.command;
  if (prepared.word != 0) out->act = sets_word(prepared.word);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult copy_work(const CopyParams& given, CUcontext handle, Work* out) {
  CopyWork work{given, nullptr};
  SIM_TRY(context_for(handle, &work.context));
  Prepared checked;
  SIM_TRY(prepare_copy(given, &checked));
  *out = work;
  return CUDA_SUCCESS;
}

CUresult fill_work(const FillNodeParams& given, CUcontext handle, Work* out) {
  FillWork work{given, nullptr};
  SIM_TRY(context_for(handle, &work.context));
  Prepared checked;
  SIM_TRY(prepare_fill(given, &checked));
  *out = work;
  return CUDA_SUCCESS;
}

CUresult host_work(const HostNodeParams& given, Work* out) {
  if (given.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = given;
  return CUDA_SUCCESS;
}

CUresult event_work(CUevent handle, Work* out) {
  EventWork work;
  SIM_TRY(event_of(handle, &work.event));
  *out = work;
  return CUDA_SUCCESS;
}

CUresult child_work(CUgraph handle, bool move, Work* out) {
  SIM_GET(Graph, graph, graph_of(handle, &graph));
  if (move && graph->owned) return CUDA_ERROR_INVALID_VALUE;
  if (!move && is_unique(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  ChildWork work{move ? graph : clone_graph(graph)};
  work.graph->moved = move;
  work.graph->owned = true;
  *out = work;
  return CUDA_SUCCESS;
}

CUresult any_work(const AnyNodeParams& given, Work* out) {
  switch (given.type) {
    case NodeType::kernel: return kernel_work(given.kernel, given.kernel.kern, given.kernel.context, out);
    case NodeType::copy:
      if (given.copy.flags != 0 || given.copy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return copy_work(given.copy.copy, given.copy.context, out);
    case NodeType::fill: return fill_work(given.fill.fill, given.fill.context, out);
    case NodeType::host: return host_work(given.host, out);
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
    case NodeType::batch: return batch_work(given.batch, out);
    case NodeType::conditional: return conditional_work(given.conditional, out);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

Context* context_of(const Work& work) {
  if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    const Function* function = object<Function>(kernel->function, kFunctionWord);
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
