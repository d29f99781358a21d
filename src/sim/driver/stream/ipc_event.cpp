// Inter-process event handles: one process refers to another's event. Events live in the node, so both read the same
// cell.
#include <cstring>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {
namespace {

constexpr std::uint64_t kEventMagic = 0x746e65762d697068;  // "hpi-vent"

struct EventHandle {
  std::uint64_t magic, seed;
  std::uint32_t index, generation;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

}  // namespace

SIM_API CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  SIM_ENTER(cuIpcGetEventHandle, out);
  SIM_GET(Event, event, event_of(handle, &event));
  if (!(event->flags & CU_EVENT_INTERPROCESS) || event->imported) return CUDA_ERROR_INVALID_HANDLE;
  const EventHandle made{kEventMagic, library().profile().node_seed, event->index, event->generation};
  *out = {};
  std::memcpy(out, &made, sizeof made);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle opaque) {
  SIM_ENTER(cuIpcOpenEventHandle, out);
  SIM_GET(Context, context, current_context(&context));
  EventHandle handle;
  std::memcpy(&handle, &opaque, sizeof handle);
  if (handle.magic != kEventMagic || handle.seed != library().profile().node_seed || handle.index >= kMaxEvents)
    return CUDA_ERROR_INVALID_VALUE;
  {
    Node::Locked locked(*library().node);
    const EventCell& cell = library().state().events[handle.index];
    if (!cell.used || cell.generation != handle.generation) return CUDA_ERROR_INVALID_HANDLE;
    if (cell.process == library().node->process()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  return give(out, list_event(context, handle.index, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, true));
}

}  // namespace headgate::sim::driver
