#include "guest/limiter/compute/stream_table.hpp"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "guest/bare/futex.hpp"
#include "guest/limiter/route/presence.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {

constinit ComputeState metered{};
constinit DriverPort port{};
__thread ThreadLane thread_lane __attribute__((tls_model("initial-exec")));
constinit Meter<DriverPort> meter{port, metered.estimates};

namespace {

struct Remembered {
  abi::CUstream handle;
  StreamMeter* stream;
  bool unknown;  // it has had no launch
};
constexpr std::uint32_t kRemembered = 32;
struct Memory {
  std::uint32_t epoch;
  Remembered streams[kRemembered];
};
__thread Memory memory __attribute__((tls_model("initial-exec")));

abi::CUcontext context_of(abi::CUstream handle) {
  abi::CUcontext context = nullptr;
  if (!is_pseudo(handle) && driver.cuStreamGetCtx != nullptr &&
      driver.cuStreamGetCtx(handle, &context) == abi::CUDA_SUCCESS) {
    return context;
  }
  if (driver.cuCtxGetCurrent != nullptr) driver.cuCtxGetCurrent(&context);
  return context;
}

}  // namespace

ContextMeter* context_meter(abi::CUcontext handle, std::uint32_t device) {
  ContextMeter* free = nullptr;
  const std::uint32_t limit = metered.context_limit.load();
  for (ContextMeter& context : metered.used_contexts()) {
    if (context.handle == handle) return &context;
    if (context.handle == nullptr && free == nullptr) free = &context;
  }
  if (free == nullptr && limit < kMaxContexts) free = &metered.contexts[limit];
  if (free == nullptr) {
    if (!metered.too_many.exchange(true))
      log_line(LogLevel::error, "more than %u contexts at once: launches in those beyond %s", kMaxContexts,
               unmeasured_fate());
    return nullptr;
  }
  if (device == kNoDevice) {
    const CurrentContext as(handle);
    abi::CUdevice ordinal = 0;
    if (driver.cuCtxGetDevice == nullptr || driver.cuCtxGetDevice(&ordinal) != abi::CUDA_SUCCESS) return nullptr;
    const auto known = static_cast<std::uint32_t>(ordinal);
    device = known < session.device_count ? session.device_index[known] : kNoDevice;
  }
  if (device == kNoDevice) return nullptr;
  free->device = device;
  free->account = &session.usage->compute[device];
  free->pace = &metered.paces[device];
  free->clock = {};
  free->anchor = nullptr;
  free->gpu_base_ns = 0;
  free->seat = {};
  free->unlearned = {};
  free->replay = {};
  free->undivided_taken = false;
  free->seat_epoch = 0;
  free->marked_until_ns = free->looked_back_ns = free->looked_around_ns = 0;
  free->launches = &session.usage->slots[session.slot].devices[device].launches;
  free->pooled = 0;
  free->failed.store(false);
  free->failing_ns.store(0);
  free->rest_ns.store(0);
  free->failure_told.store(false);
  free->handle = handle;
  if (limit < kMaxContexts && free == &metered.contexts[limit]) metered.context_limit.store(limit + 1);
  metered.contexts_seen.fetch_add(1);
  move_lane_epoch();
  return free;
}

namespace {

// Returns an unused entry; else one of a destroyed stream; else one with nothing open or unsettled (its stream gets
// another at its next launch). Returns with the entry's lock held; null: all are busy.
StreamMeter* free_place() {
  for (const bool of_living : {false, true})
    for (StreamMeter& stream : metered.streams) {
      if (stream.used.load() && !of_living && stream.id != kGoneStream) continue;
      if (!stream.lock.try_lock()) continue;
      if (!stream.used.load() || (stream.head.load() == stream.tail.load() && !stream.open.load())) return &stream;
      stream.lock.unlock();
    }
  return nullptr;
}

// Call under the table's lock.
StreamMeter* add_stream(abi::CUstream handle, unsigned long long id, ContextMeter& context) {
  if (StreamMeter* place = free_place(); place != nullptr) {
    StreamMeter& stream = *place;
    const auto i = static_cast<std::uint32_t>(place - metered.streams.data());
    tell_lane(stream, true);
    stream.used.store(false);
    metered.lanes[i].owner.store(nullptr);
    stream.handle = handle;
    stream.id = id;
    stream.context = &context;
    stream.legacy = reinterpret_cast<std::uintptr_t>(handle) <= 1;
    stream.quantum_ns = kQuantumNs;
    stream.last_open_ns = stream.last_end_ns = stream.seen_ns = stream.looks = 0;
    stream.thin_brackets = 0;
    stream.section_ns = 0;
    stream.behind_wait.store(false, std::memory_order_relaxed);
    stream.head.store(stream.tail.load());
    if (metered.stream_limit.load() <= i) metered.stream_limit.store(i + 1);
    stream.used.store(true, std::memory_order_release);
    // Invalidate what threads remember of this entry, and that this stream is unknown.
    metered.epoch.fetch_add(1, std::memory_order_release);
    stream.lock.unlock();
    return &stream;
  }
  return nullptr;
}

StreamMeter* look_up(abi::CUstream handle, bool add) {
  // A capturing stream has nothing of ours, and the calls below would break the capture.
  if (capturing(handle)) return nullptr;
  const abi::CUcontext owner = context_of(handle);
  if (owner == nullptr) return nullptr;
  unsigned long long id = reinterpret_cast<std::uintptr_t>(handle);
  if (reinterpret_cast<std::uintptr_t>(handle) <= 1) id = 1ull << 63;
  else if (driver.cuStreamGetId != nullptr) driver.cuStreamGetId(handle, &id);
  const std::int64_t until_ns = port.now_ns() + kPatienceNs;
  while (true) {
    metered.table_lock.lock();
    StreamMeter* found = nullptr;
    ContextMeter* context = context_meter(owner);
    for (std::uint32_t i = 0; context != nullptr && i < metered.stream_limit.load() && found == nullptr; ++i) {
      StreamMeter& stream = metered.streams[i];
      if (stream.used.load() && stream.id == id && stream.context == context) found = &stream;
    }
    if (found == nullptr && context != nullptr && add) found = add_stream(handle, id, *context);
    metered.table_lock.unlock();
    // All entries are busy: one becomes free as soon as something is settled.
    if (found != nullptr || context == nullptr || !add) return found;
    if (port.now_ns() >= until_ns) {
      static std::atomic<bool> said{false};
      if (!said.exchange(true))
        log_line(LogLevel::error, "more than %u streams at work at once: launches on further ones %s", kMaxStreams,
                 unmeasured_fate());
      return nullptr;
    }
    wake_settler();
    pause_thread();
  }
}

Remembered& remembered(abi::CUstream handle) {
  const std::uint32_t epoch = metered.epoch.load(std::memory_order_acquire);
  if (memory.epoch != epoch) {
    memory = {};
    memory.epoch = epoch;
  }
  const auto bits = reinterpret_cast<std::uintptr_t>(handle);
  return memory.streams[(bits ^ bits >> 6 ^ bits >> 12) % kRemembered];
}

}  // namespace

StreamMeter* find_stream(abi::CUstream handle) {
  Remembered& place = remembered(handle);
  if (place.stream != nullptr && place.handle == handle && says_which_stream(handle)) [[likely]]
    return place.stream;
  place = {handle, look_up(handle, true), false};
  return place.stream;
}

StreamMeter* known_stream(abi::CUstream handle) {
  Remembered& place = remembered(handle);
  if ((place.stream == nullptr && !place.unknown) || place.handle != handle || !says_which_stream(handle)) {
    StreamMeter* stream = look_up(handle, false);
    place = {handle, stream, stream == nullptr};
  }
  return place.stream;
}

void pause_thread() {
  const timespec shortly{0, 20'000};
  ::nanosleep(&shortly, nullptr);
}

void wake_settler() {
  metered.work.fetch_add(1);
  if (metered.settler.load(std::memory_order_acquire) == 0) start_settler();
  if (metered.settler_idle.load()) bare::futex_wake_all(&metered.work);
}

void wait_at_gate(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t wait_ns) {
  const int saved = errno;
  const int slack = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack > 1) ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  bare::futex_wait(&word, seen, wait_ns);
  if (slack > 1) ::prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
  errno = saved;
}

CurrentContext::CurrentContext(abi::CUcontext wanted) {
  if (wanted != nullptr) arrive();
  if (wanted == nullptr || driver.cuCtxGetCurrent == nullptr || driver.cuCtxSetCurrent == nullptr) return;
  if (driver.cuCtxGetCurrent(&before_) != abi::CUDA_SUCCESS || before_ == wanted) return;
  changed_ = driver.cuCtxSetCurrent(wanted) == abi::CUDA_SUCCESS;
}
CurrentContext::~CurrentContext() {
  if (changed_) driver.cuCtxSetCurrent(before_);
}

}  // namespace headgate::limiter
