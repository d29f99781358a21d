#include "sim/driver/context/green_context.hpp"

#include <algorithm>

#include "sim/driver/graph/capture.hpp"

namespace headgate::sim::driver {

std::uint32_t sms_of(const Stream* stream) {
  return stream->green == nullptr ? library().profile().sm_count : stream->green->set.count;
}

namespace {

std::vector<GreenContext*>& alive_green() { return alive<GreenContext>().all; }  // under contexts_lock

CUresult green_of(CUgreenCtx handle, GreenContext** out) {
  *out = object<GreenContext>(handle);
  if (*out == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return health((*out)->view->root);
}

CUgreenCtx handle_of(GreenContext* green) { return reinterpret_cast<CUgreenCtx>(green); }

// The caller holds contexts_lock. Its streams stay and return CONTEXT_IS_DESTROYED, as cuda.h says.
void end(GreenContext* green) {
  std::erase(alive_green(), green);
  green->view->retire();
  recycled<Context>().give(green->view);
  recycled<GreenContext>().give(green);
}

CUresult create(CUgreenCtx* out, const SmSet* set, CUdevice device, unsigned flags) {
  Library& lib = library();
  if (!out || !set || set->mark != kSmSetMark || flags != kGreenDefaultStream) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || static_cast<std::size_t>(device) >= lib.visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (lib.visible[static_cast<std::size_t>(device)] != set->device) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(lib.contexts_lock);
  SIM_GET(Context, primary, retain_primary(device, &primary));
  GreenContext* green = recycled<GreenContext>().take();
  green->id = lib.next_id.fetch_add(1);
  green->set = *set;
  green->set.split = 0;
  green->view = recycled<Context>().take();
  green->view->root = primary;
  green->view->green = green;
  green->view->primary = false;
  green->view->device = device;
  green->view->node_device = set->device;
  const CUresult made = make_stream(primary, StreamKind::non_blocking, 0, 0, &green->stream, green);
  if (made != CUDA_SUCCESS) {
    recycled<Context>().give(green->view);
    recycled<GreenContext>().give(green);
    (void)release_primary(device);
    return made;
  }
  green->view->publish();
  green->publish();
  alive_green().push_back(green);
  return give(out, handle_of(green));
}

}  // namespace

void forget_green(const Context* primary) {
  const auto of_primary = [primary](const GreenContext* green) { return green->view->root == primary; };
  while (true) {
    const auto found = std::ranges::find_if(alive_green(), of_primary);
    if (found == alive_green().end()) return;
    end(*found);
  }
}

SIM_CALL(cuGreenCtxCreate, (CUgreenCtx * out, CUdevResourceDesc set, CUdevice device, unsigned flags),
         create(out, reinterpret_cast<const SmSet*>(set), device, flags))
SIM_API CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  SIM_ENTER(cuGreenCtxDestroy);
  const std::lock_guard guard(library().contexts_lock);
  GreenContext* green = object<GreenContext>(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const int device = green->view->device;
  end(green);
  return release_primary(device);
}
SIM_TELL(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx handle), out, GreenContext, green, green_of(handle, &green),
         green->view)
SIM_API CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned flags, int priority) {
  SIM_ENTER(cuGreenCtxStreamCreate);
  SIM_GET(GreenContext, green, green_of(handle, &green));
  if (!out || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, make_stream(green->view->root, StreamKind::non_blocking, flags, priority, &stream, green));
  return give(out, stream);
}
SIM_API CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  SIM_ENTER(cuGreenCtxRecordEvent);
  SIM_GET(GreenContext, green, green_of(handle, &green));
  return record_context(green->view->root, green, event);
}
SIM_API CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  SIM_ENTER(cuGreenCtxWaitEvent);
  SIM_GET(GreenContext, green, green_of(handle, &green));
  return context_waits(green->view->root, green, event);
}
SIM_API CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  SIM_ENTER(cuGreenCtxGetId, id);
  GreenContext* green = current_green();
  if (handle) SIM_TRY(green_of(handle, &green));
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return give(id, green->id);
}
// Returns a stream's green context. Pseudo handles mean the current context.
SIM_API CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* out) {
  SIM_ENTER(cuStreamGetGreenCtx, out);
  SIM_GET(Stream, stream, stream_of(handle, false, &stream));
  return give(out, handle_of(stream->green));
}

}  // namespace headgate::sim::driver
