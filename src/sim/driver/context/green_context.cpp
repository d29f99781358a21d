#include "sim/driver/context/green_context.hpp"

#include <algorithm>

#include "sim/driver/context/context_events.hpp"
#include "sim/driver/graph/capture.hpp"

namespace headgate::sim::driver {

Pool<GreenContext>& green_objects() { return forever<Pool<GreenContext>>(); }

std::uint32_t sms_of(const Stream* stream) {
  return stream->green == nullptr ? library().profile().sm_count : stream->green->set.count;
}

namespace {

std::vector<GreenContext*>& alive_green() {  // under contexts_lock
  static auto& forever = *new std::vector<GreenContext*>;
  return forever;
}

CUresult green_of(CUgreenCtx handle, GreenContext** out) {
  *out = object<GreenContext>(handle, kGreenWord);
  if (*out == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return health((*out)->view->root);
}

CUgreenCtx handle_of(GreenContext* green) { return reinterpret_cast<CUgreenCtx>(green); }

// The caller holds contexts_lock. Its streams stay and return CONTEXT_IS_DESTROYED, as cuda.h says.
void end(GreenContext* green) {
  std::erase(alive_green(), green);
  green->view->word.store(0, std::memory_order_release);
  context_objects().give(green->view);
  green_objects().give(green);
}

CUresult create(CUgreenCtx* out, const SmSet* set, CUdevice device, unsigned flags) {
  Library& lib = library();
  if (!out || !set || set->mark != kSmSetMark || flags != kGreenDefaultStream) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || static_cast<std::size_t>(device) >= lib.visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (lib.visible[static_cast<std::size_t>(device)] != set->device) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(lib.contexts_lock);
  SIM_GET(Context, primary, retain_primary(device, &primary));
  GreenContext* green = green_objects().take();
  green->id = lib.next_id.fetch_add(1);
  green->set = *set;
  green->set.split = 0;
  green->view = context_objects().take();
  green->view->root = primary;
  green->view->green = green;
  green->view->primary = false;
  green->view->device = device;
  green->view->node_device = set->device;
  const CUresult made = make_stream(primary, StreamKind::non_blocking, 0, 0, &green->stream, green);
  if (made != CUDA_SUCCESS) {
    context_objects().give(green->view);
    green_objects().give(green);
    (void)release_primary(device);
    return made;
  }
  green->view->word.store(kContextWord, std::memory_order_release);
  green->word.store(kGreenWord, std::memory_order_release);
  alive_green().push_back(green);
  *out = handle_of(green);
  return CUDA_SUCCESS;
}

CUresult destroy(CUgreenCtx handle) {
  const std::lock_guard guard(library().contexts_lock);
  GreenContext* green = object<GreenContext>(handle, kGreenWord);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const int device = green->view->device;
  end(green);
  return release_primary(device);
}

CUresult stream_create(CUstream* out, CUgreenCtx handle, unsigned flags, int priority) {
  SIM_GET(GreenContext, green, green_of(handle, &green));
  if (!out || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, make_stream(green->view->root, StreamKind::non_blocking, flags, priority, &stream, green));
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

// Returns a stream's green context. Pseudo handles mean the current context.
CUresult green_of_stream(CUstream handle, CUgreenCtx* out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, false, &stream));
  *out = handle_of(stream->green);
  return CUDA_SUCCESS;
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
SIM_CALL(cuGreenCtxDestroy, (CUgreenCtx green), destroy(green))
SIM_TELL(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx handle), out, GreenContext, green, green_of(handle, &green),
         reinterpret_cast<CUcontext>(green->view))
SIM_CALL(cuGreenCtxStreamCreate, (CUstream * out, CUgreenCtx green, unsigned flags, int priority),
         stream_create(out, green, flags, priority))
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
  SIM_ENTER(cuGreenCtxGetId);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  GreenContext* green = current_green();
  if (handle) SIM_TRY(green_of(handle, &green));
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = green->id;
  return CUDA_SUCCESS;
}
SIM_CALL(cuStreamGetGreenCtx, (CUstream stream, CUgreenCtx* out), green_of_stream(stream, out))

}  // namespace headgate::sim::driver
