// Calls that order, observe or copy. Open brackets on their stream (or in their context) are closed first, so that idle
// time after them is not charged.
#include <string_view>

#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/compute/copies.hpp"
#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/entry/timed_section.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/memory/memory.hpp"
#include "guest/limiter/memory/refusal.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

enum class Role { order, record, wait, synchronise, begin_capture, end_capture, join, destroy, ask_stream, ask_event };

constexpr Role role_of(std::string_view name) {
  if (name.starts_with("cuStreamBeginCapture")) return Role::begin_capture;
  if (name.starts_with("cuStreamEndCapture")) return Role::end_capture;
  if (name.starts_with("cuStreamWaitEvent")) return Role::join;
  if (name.starts_with("cuStreamDestroy")) return Role::destroy;
  if (name.starts_with("cuStreamQuery")) return Role::ask_stream;
  if (name == "cuEventQuery") return Role::ask_event;
  if (name.starts_with("cuEventRecord")) return Role::record;
  if (name.find("Synchronize") != std::string_view::npos) return Role::synchronise;
  if (name.find("Mem") != std::string_view::npos && name.find("Async") == std::string_view::npos) return Role::wait;
  return Role::order;
}
// A command that the host or another program may have to end: work queued behind it may wait indefinitely.
constexpr bool waits_outside(std::string_view name) {
  return name.starts_with("cuStreamWaitValue") || name.starts_with("cuStreamBatchMemOp") ||
         name.starts_with("cuLaunchHostFunc") || name.starts_with("cuStreamAddCallback") ||
         name.starts_with("cuWaitExternalSemaphores");
}
// Uses the copy engines; a fill is a kernel.
constexpr bool copies_bytes(std::string_view name) { return name.starts_with("cuMemcpy"); }
constexpr bool per_thread_default(std::string_view name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }

template <typename Function>
struct OrderCall;

template <typename... Arguments>
struct OrderCall<CUresult(Arguments...)> {
  using Function = CUresult(Arguments...);
  Function* const& slot;
  Role role;
  bool per_thread, copy = false, waits = false;

  static constexpr bool has_stream = (std::is_same_v<Arguments, CUstream> || ...);

  CUresult operator()(Arguments... arguments) const {
    arrive();
    if constexpr (has_stream) {
      if (role == Role::begin_capture || role == Role::end_capture) return capture(arguments...);
      if (any_capture()) {
        if (role == Role::join) return sealed(stream_of(arguments...), arguments...);
        if (role == Role::destroy) return destroyed(arguments...);
      }
    }
    // Query before closing: our end event behind the last kernel would make an idle stream busy.
    if (role == Role::ask_event) return observed(forward(slot, arguments...));
    if (role == Role::ask_stream) {
      const CUresult answer = forward(slot, arguments...);
      if (answer == CUDA_ERROR_NOT_READY && concerned()) close(arguments...);
      return observed(answer);
    }
    const bool ours = concerned();
    if constexpr (has_stream) {
      if (ours && role == Role::record) before_record(event_of(arguments...), stream_of(arguments...));
    }
    if (ours) close(arguments...);
    if constexpr (has_stream) {
      if (ours && waits) note_wait(stream_of(arguments...));
    }
    if (role == Role::destroy) memory_forget_streams();
    if constexpr (std::is_same_v<Function, cuGraphUpload_t>) return uploaded(arguments...);
    else if (ours && copy) return observed(measured(arguments...));
    else return observed(forward(slot, arguments...));
  }

 private:
  CUresult measured(Arguments... arguments) const {
    const CopyBracket bracket(stream_of(arguments...), role == Role::wait);
    return forward(slot, arguments...);
  }
  CUresult observed(CUresult result) const {
    if (role == Role::synchronise) memory_synchronised();
    else if (role == Role::wait) memory_waited();
    else if (role != Role::order && role != Role::record && role != Role::join) memory_observed();
    return noted(result);
  }
  void close([[maybe_unused]] Arguments... arguments) const {
    if constexpr (has_stream) {
      const CUstream stream = stream_of(arguments...);
      // Work on the legacy stream follows all blocking streams' work. An end event sent later would make such a stream
      // busy again after the program knows it is idle.
      if (reinterpret_cast<std::uintptr_t>(stream) <= 1 && role != Role::destroy) return close_context();
      close_stream(stream, role == Role::destroy);
      if (metered.legacy_open.load(std::memory_order_relaxed) != 0) close_legacy();
    } else {
      close_context();
    }
  }
  static void note_wait(CUstream handle) {
    StreamMeter* const stream = known_stream(handle);
    if (stream == nullptr) return;
    stream->lock.lock();
    meter.waits(*stream);
    stream->lock.unlock();
  }
  static CUevent event_of(Arguments... arguments) {
    CUevent event = nullptr;
    ((event = pick_event(event, arguments)), ...);
    return event;
  }
  CUstream stream_of(Arguments... arguments) const {
    CUstream stream = nullptr;
    ((stream = pick(stream, arguments)), ...);
    return stream == nullptr && per_thread ? stream_per_thread() : stream;
  }
  CUresult capture(Arguments... arguments) const {
    const CUstream stream = stream_of(arguments...);
    if (role == Role::end_capture) {
      const CUresult result = forward(slot, arguments...);
      capture_may_have_ended(stream);
      return result;
    }
    capture_begins();
    move_lane_epoch();
    const CUresult result = sealed(stream, arguments...);
    capture_begun(stream, result);
    return result;
  }
  // Sends nothing of ours between the stream's last bracket and the driver's call: the next holder of the lock sees the
  // capture.
  CUresult sealed(CUstream stream, Arguments... arguments) const {
    StreamMeter* mine = nullptr;
    if (concerned()) {
      close(arguments...);
      mine = known_stream(stream);
    }
    if (mine == nullptr) return forward(slot, arguments...);
    mine->lock.lock();
    if (mine->open.load() && !mine->context->failed.load()) {
      tell_lane(*mine, true);
      meter.close(*mine);
    }
    const CUresult result = forward(slot, arguments...);
    mine->lock.unlock();
    return result;
  }
  CUresult uploaded(CUgraphExec exec, CUstream stream) const {
    const CUstream into = stream == nullptr && per_thread ? stream_per_thread() : stream;
    return with_graph_memory(exec, into, [&] { return forward(slot, exec, stream); });
  }
  CUresult destroyed(Arguments... arguments) const {
    if (concerned()) close(arguments...);
    memory_forget_streams();
    const CUresult result = forward(slot, arguments...);
    if (result == CUDA_SUCCESS) capture_stream_gone(stream_of(arguments...));
    return observed(result);
  }

  template <typename Argument>
  static CUevent pick_event(CUevent found, Argument argument) {
    if constexpr (std::is_same_v<Argument, CUevent>) return argument;
    else return found;
  }
  template <typename Argument>
  static CUstream pick(CUstream found, Argument argument) {
    if constexpr (std::is_same_v<Argument, CUstream>) return argument;
    else return found;
  }
};

}  // namespace

#define HEADGATE_ORDER_order(...) __VA_ARGS__
#define HEADGATE_ORDER_alloc(...)
#define HEADGATE_ORDER_free(...)
#define HEADGATE_ORDER_launch(...)
#define HEADGATE_ORDER_view(...)
#define HEADGATE_ORDER_lifecycle(...)
#define HEADGATE_ORDER_pass(...)

#define CU_FN(name, kind, since, parameters, arguments)                                           \
  HEADGATE_ORDER_##kind(HEADGATE_HOOK CUresult name parameters {                                  \
    constexpr Role role = role_of(#name);                                                         \
    return OrderCall<name##_t>{driver.name, role, per_thread_default(#name), copies_bytes(#name), \
                               waits_outside(#name)} arguments;                                   \
  })
#include "guest/abi/cuda_table.def"
