// User objects: reference counts owned by the program and by graphs. The last release queues the object's destructor on
// the thread of host functions.
#include <limits>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/graph/graph.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {

struct UserObject : Handled<0x68676f62, CUDA_ERROR_INVALID_VALUE> {
  std::atomic<std::uint64_t> references{0};
  CUhostFn destroy = nullptr;
  void* data = nullptr;
};

namespace {

constexpr unsigned kNoDestructorSync = 1, kMove = 1;  // cuda.h: CUuserObject_flags, CUuserObjectRetain_flags

bool countable(unsigned count) { return count != 0 && count <= std::numeric_limits<int>::max(); }

CUresult object_of(void* handle, unsigned count, UserObject** out) {
  *out = object<UserObject>(handle);
  return *out != nullptr && countable(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void release(UserObject* object, unsigned count) {
  if (object->references.fetch_sub(count) != count) return;
  const CUhostFn destroy = object->destroy;
  void* data = object->data;
  recycled<UserObject>().give(object);
  run_on_host_thread([destroy, data] { destroy(data); });
}

}  // namespace

void share_objects(const Graph* from, Graph* to) {
  to->objects = from->objects;
  for (const auto& [object, count] : to->objects) object->references.fetch_add(count);
}

void release_objects(Graph* graph) {
  for (const auto& [object, count] : graph->objects) release(object, count);
  graph->objects.clear();
}

void outlive_launch(Graph* graph, Stream* stream, std::uint64_t stream_id) {
  if (graph->objects.empty() || stream == nullptr || stream->id != stream_id) return;
  if (!stream->valid() || is_capturing(stream) || stream_idle(stream)) return;
  const auto held = std::move(graph->objects);
  graph->objects.clear();
  const auto let_go = [held] {
    for (const auto& [object, count] : held) release(object, count);
  };
  if (submit_host_function(stream, [let_go](CUresult) { let_go(); }) != CUDA_SUCCESS) let_go();
}

SIM_API CUresult cuUserObjectCreate(void** out, void* data, CUhostFn destroy, unsigned count, unsigned flags) {
  SIM_ENTER(cuUserObjectCreate);
  if (!out || !destroy || !countable(count) || flags != kNoDestructorSync) return CUDA_ERROR_INVALID_VALUE;
  UserObject* object = recycled<UserObject>().take();
  object->destroy = destroy;
  object->data = data;
  object->references.store(count);
  object->publish();
  return give(out, object);
}
SIM_API CUresult cuUserObjectRetain(void* handle, unsigned count) {
  SIM_ENTER(cuUserObjectRetain);
  SIM_GET(UserObject, object, object_of(handle, count, &object));
  object->references.fetch_add(count);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuUserObjectRelease(void* handle, unsigned count) {
  SIM_ENTER(cuUserObjectRelease);
  SIM_GET(UserObject, object, object_of(handle, count, &object));
  if (object->references.load() < count) return CUDA_ERROR_INVALID_VALUE;
  release(object, count);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuGraphRetainUserObject(CUgraph graph_handle, void* handle, unsigned count, unsigned flags) {
  SIM_ENTER(cuGraphRetainUserObject);
  SIM_GET(Graph, graph, resolve(graph_handle, &graph));
  SIM_GET(UserObject, object, object_of(handle, count, &object));
  if (flags > kMove || (flags == kMove && object->references.load() < count)) return CUDA_ERROR_INVALID_VALUE;
  if (flags != kMove) object->references.fetch_add(count);
  graph->objects[object] += count;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuGraphReleaseUserObject(CUgraph graph_handle, void* handle, unsigned count) {
  SIM_ENTER(cuGraphReleaseUserObject);
  SIM_GET(Graph, graph, resolve(graph_handle, &graph));
  SIM_GET(UserObject, object, object_of(handle, count, &object));
  const auto held = graph->objects.find(object);
  if (held == graph->objects.end() || held->second < count) return CUDA_ERROR_INVALID_VALUE;
  if ((held->second -= count) == 0) graph->objects.erase(held);
  release(object, count);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
