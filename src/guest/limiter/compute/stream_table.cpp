#include "guest/limiter/compute/stream_table.hpp"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "guest/bare/futex.hpp"
#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/compute/copies.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/route/presence.hpp"
#include "guest/limiter/stream/captures.hpp"
#include "guest/limiter/stream/streams.hpp"

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

// Call under the table's lock. kNoDevice: a context that we did not see created.
ContextMeter* context_meter(abi::CUcontext handle, std::uint32_t device = kNoDevice) {
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

void read_policy() {
  bool limited = ledger::is_paused(*session.policy);
  if (!limited) metered.paused_ns.store(0);
  else if (metered.paused_ns.load() == 0) metered.paused_ns.store(port.now_ns());
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    const ledger::DevicePolicy& policy = session.policy->devices[d];
    metered.seen_gate_epoch[d].store(policy.gate_epoch.load(std::memory_order_acquire), std::memory_order_relaxed);
    limited |= policy.compute_ceiling_ppm.load(std::memory_order_relaxed) < ledger::kWholeGpu;
    limited |= policy.arbitrated.load(std::memory_order_relaxed) != 0;
  }
  // Only metering tells whether the GPU still works for an idle program.
  limited |= session.policy->freeze_after_s.load(std::memory_order_relaxed) != 0;
  metered.limited.store(limited, std::memory_order_release);
}

}  // namespace

bool concerned() {
  if (!metered.active.load(std::memory_order_acquire)) return false;
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    if (session.policy->devices[d].gate_epoch.load(std::memory_order_relaxed) !=
        metered.seen_gate_epoch[d].load(std::memory_order_relaxed)) [[unlikely]] {
      read_policy();
      break;
    }
  }
  return metered.limited.load(std::memory_order_relaxed);
}

const char* unmeasured_fate() {
  return session.policy->fail_policy == ledger::FailPolicy::closed ? "are refused from now on"
                                                                   : "run unlimited from now on";
}

namespace {

// Call under the settler's lock. Settles what was in progress by estimate. Returns false if a stream of the context is
// in use just now.
bool resume(ContextMeter& context) {
  const std::int64_t now_ns = port.now_ns();
  bool all = true;
  for (std::uint32_t i = 0; i < metered.stream_limit.load(); ++i) {
    StreamMeter& stream = metered.streams[i];
    if (!stream.used.load() || stream.context != &context) continue;
    if (!stream.lock.try_lock()) {
      all = false;
      continue;
    }
    tell_lane(stream, true);
    meter.abandon(stream, now_ns);
    stream.lock.unlock();
  }
  if (all && context.failed.load()) {
    const CurrentContext as(context.handle);
    return_prepaid(context);
    meter.resume(context);
    move_lane_epoch();
  }
  return all;
}

void tell_unmetered(ContextMeter& context) {
  if (!context.failure_told.exchange(true)) port.failed(context, context.failure.load(), context.failed_call.load());
}

bool try_again(ContextMeter& context) {
  if (!metered.settler_lock.try_lock()) return false;
  const bool done = resume(context);
  metered.settler_lock.unlock();
  return done;
}

}  // namespace

std::int64_t resume_failed(std::int64_t now_ns) {
  std::int64_t next = kNothingOpen;
  for (ContextMeter& context : metered.used_contexts()) {
    if (context.handle == nullptr || !context.failed.load(std::memory_order_acquire)) continue;
    const std::int64_t retry_ns = context.retry_ns.load();
    if (retry_ns == kNeverMetered || (now_ns >= retry_ns && resume(context))) continue;
    next = std::min(next, std::max(retry_ns, now_ns + kFirstRetryNs));
  }
  return next;
}

bool can_measure(ContextMeter& context) {
  while (context.failed.load(std::memory_order_acquire)) {
    const std::int64_t retry_ns = context.retry_ns.load(), now_ns = port.now_ns();
    if (retry_ns == kNeverMetered) return false;
    if (now_ns >= retry_ns && try_again(context)) return true;
    const std::int64_t failing_ns = context.failing_ns.load();
    if (failing_ns != 0 && now_ns - failing_ns >= kUnmeteredNs) {
      tell_unmetered(context);
      return false;
    }
    pause_thread();
  }
  return true;
}

namespace {

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

void close_stream(abi::CUstream handle, bool dies) {
  StreamMeter* stream = known_stream(handle);
  if (stream == nullptr) return;
  if (!stream->open.load(std::memory_order_acquire) && !dies) return;
  stream->lock.lock();
  tell_lane(*stream, true);
  if (!stream->context->failed.load()) meter.close(*stream);
  if (dies) {
    // If all its brackets are unsettled the last one stays open, and the settler ends it.
    stream->handle = nullptr;
    stream->id = kGoneStream;
    metered.epoch.fetch_add(1, std::memory_order_release);
    move_lane_epoch();
  }
  stream->lock.unlock();
  wake_settler();
}

namespace {

// Closes what is open in the current context; returns whether something was.
bool close_current(bool only_legacy) {
  abi::CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent == nullptr || driver.cuCtxGetCurrent(&current) != abi::CUDA_SUCCESS) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < metered.stream_limit.load(std::memory_order_acquire); ++i) {
    StreamMeter& stream = metered.streams[i];
    if (!stream.used.load(std::memory_order_acquire) || !stream.open.load(std::memory_order_acquire)) continue;
    if (stream.context->handle != current || stream.context->failed.load()) continue;
    if (only_legacy && !stream.legacy) continue;
    // The per-thread stream's handle names the caller's stream; other threads' streams are closed by their own calls.
    if (stream.handle == abi::stream_per_thread() && known_stream(stream.handle) != &stream) continue;
    stream.lock.lock();
    tell_lane(stream, true);
    meter.close(stream);
    stream.lock.unlock();
    any = true;
  }
  return any;
}

}  // namespace

void close_others(const StreamMeter& mine) {
  for (std::uint32_t i = 0; i < metered.stream_limit.load(std::memory_order_acquire); ++i) {
    StreamMeter& stream = metered.streams[i];
    if (&stream == &mine || !stream.open.load(std::memory_order_acquire) || stream.context != mine.context) continue;
    // The per-thread stream's handle names the caller's stream.
    if (stream.handle == abi::stream_per_thread() && known_stream(stream.handle) != &stream) continue;
    if (!stream.lock.try_lock()) continue;  // its thread is launching, or waiting like us
    tell_lane(stream, true);
    meter.close(stream);
    stream.lock.unlock();
  }
}

void close_context() {
  if (close_current(false)) wake_settler();
}

void close_legacy() {
  metered.legacy_open.store(0);
  if (close_current(true)) wake_settler();
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

namespace {

bool any_stream_is_busy() {
  for (std::uint32_t d = 0; d < metered.device_count; ++d)
    if (metered.paces[d].busy_streams.load(std::memory_order_relaxed) != 0) return true;
  return false;
}

void start_metering() {
  if (session.membership.load(std::memory_order_acquire) != Membership::member || session.usage == nullptr) return;
  if (metered.active.load(std::memory_order_acquire)) return;
  const std::uint32_t count = session.held.device_count;
  metered.device_count = count < ledger::kMaxDevices ? count : ledger::kMaxDevices;
  unfinished_work.store(&any_stream_is_busy, std::memory_order_release);
  read_policy();
  // Invalidate what threads remember from before.
  metered.epoch.fetch_add(1);
  move_lane_epoch();
  metered.active.store(true, std::memory_order_release);
}

// Ends the context's brackets and settles what the GPU finishes within kPatienceNs: the driver waits for that work too
// when it destroys a context.
void settle_context(abi::CUcontext handle) {
  const ContextMeter* context = nullptr;
  metered.table_lock.lock();
  for (const ContextMeter& one : metered.used_contexts())
    if (one.handle == handle && !one.failed.load()) context = &one;
  metered.table_lock.unlock();
  if (context == nullptr) return;
  {
    const CurrentContext as(handle);
    close_context();
  }
  const auto unsettled = [context](const StreamMeter& stream) {
    return stream.used.load() && stream.context == context && stream.unsettled.load() > (stream.open.load() ? 1 : 0);
  };
  const std::int64_t until_ns = port.now_ns() + kPatienceNs;
  while (metered.settler.load() == 1 && port.now_ns() < until_ns) {
    bool any = false;
    for (std::uint32_t i = 0; i < metered.stream_limit.load(); ++i) any |= unsettled(metered.streams[i]);
    if (!any) return;
    pause_thread();
  }
}

}  // namespace

void compute_know_context(abi::CUcontext handle, std::uint32_t device) {
  start_metering();
  if (!metered.active.load(std::memory_order_acquire)) return;
  metered.table_lock.lock();
  if (handle == nullptr || context_meter(handle, device) == nullptr) {
    metered.contexts_seen.fetch_add(1);
    move_lane_epoch();
  }
  metered.table_lock.unlock();
}

void compute_forget_context(abi::CUcontext handle) {
  captures_of_context_gone(handle);
  if (!metered.active.load(std::memory_order_acquire)) return;
  settle_context(handle);
  metered.settler_lock.lock();
  metered.table_lock.lock();
  for (ContextMeter& context : metered.used_contexts()) {
    if (context.handle != handle) continue;
    for (StreamMeter& stream : metered.used_streams())
      if (stream.used.load() && stream.context == &context) {
        tell_lane(stream, true);
        meter.forget(stream, kNothingOpen);
      }
    forget_copies(context);
    return_prepaid(context);
    meter.forget_events(context);
    ledger::leave_seat(context.seat);
    context.handle = nullptr;
    metered.contexts_seen.fetch_sub(1);
  }
  metered.epoch.fetch_add(1, std::memory_order_release);
  move_lane_epoch();
  metered.table_lock.unlock();
  metered.settler_lock.unlock();
}

void meter_stops_after_fork() {
  metered.active.store(false);
  metered.limited.store(false);
  metered.paused_ns.store(0);
}

void meter_reset_after_fork() {
  metered.settler.store(0);
  metered.unsettled.store(false);
  metered.settler_idle.store(false);
  metered.table_lock.reset();
  metered.settler_lock.reset();
  metered.contexts_seen.store(0);
  for (ContextMeter& context : metered.used_contexts()) {
    context.pool_lock.reset();
    context.handle = nullptr;
  }
  for (StreamMeter& stream : metered.used_streams()) {
    stream.lock.reset();
    stream.open.store(false);
    stream.unsettled.store(0);
    stream.timed_copies.store(0);
    stream.head.store(stream.tail.load());
    stream.used.store(false);
  }
  for (Pace& pace : metered.paces) {
    pace.busy_until_ns.store(0);
    pace.credit_ns.store(0);
    pace.open.store(0);
    pace.busy_streams.store(0);
    pace.oldest_ns.store(0);
    pace.last_debt_ns.store(0);
    pace.unknown.store(0);
    pace.slowed.store(0);
    pace.unsettled_ns.store(0);
    pace.ended_ns.store(0);
    pace.lag_until_ns.store(0);
    pace.turn_began_ns.store(0);
  }
  metered.epoch.fetch_add(1);
  for (Lane& lane : std::span(metered.lanes).first(metered.stream_limit.load())) lane.owner.store(nullptr);
  metered.context_limit.store(0);
  metered.stream_limit.store(0);
  move_lane_epoch();
}

}  // namespace headgate::limiter
