#include "guest/limiter/memory/context_size.hpp"

#include <atomic>
#include <span>

#include "guest/bare/saturating.hpp"
#include "guest/bare/short_lock.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"

namespace headgate::limiter {
namespace {

// Everything below is under this lock. A driver's call is made under it too, so that no context is destroyed meanwhile.
bare::ShortLock contexts_lock;
// Of the process, on all its GPUs. Of contexts beyond these only the sum on each GPU is known.
Context recorded[kMaxKnownContexts];
struct ContextSum {
  std::uint64_t count = 0;
  std::uint64_t charged_bytes = 0;
};
ContextSum unrecorded[ledger::kMaxDevices];
std::uint64_t guesses[ledger::kMaxDevices];

std::uint32_t driver_version() {
  int version = 0;
  return forward(driver.cuDriverGetVersion, &version) == abi::CUDA_SUCCESS ? static_cast<std::uint32_t>(version) : 0;
}

std::uint64_t believable(std::uint64_t bytes) { return bytes <= kLargestContext ? bytes : 0; }

std::uint64_t measured_size(std::uint32_t device) {
  const std::uint64_t shares = believable(session.usage->compute[device].context_bytes.load(std::memory_order_relaxed));
  if (shares != 0) return shares;
  if (const std::uint64_t told = believable(told_context_bytes(device)); told != 0) return told;
  const ledger::GpuPage* const page = users_gpu_page(device);
  const bool is_known = page != nullptr && page->context_driver.load(std::memory_order_acquire) == driver_version();
  return is_known ? believable(page->context_bytes.load(std::memory_order_relaxed)) : 0;
}

void know_size(std::uint32_t device, std::uint64_t bytes) {
  session.usage->compute[device].context_bytes.store(bytes, std::memory_order_relaxed);
  ledger::GpuPage* const page = users_gpu_page(device);
  if (page == nullptr) return;
  page->context_bytes.store(bytes, std::memory_order_relaxed);
  page->context_driver.store(driver_version(), std::memory_order_release);
}

Context* find_context(abi::CUcontext handle, std::uint32_t places = kMaxKnownContexts) {
  for (Context& each : std::span(recorded).first(places)) {
    if (each.handle == handle) return &each;
  }
  return nullptr;
}

Context* free_place(bool is_primary) {
  return find_context(nullptr, is_primary ? kMaxKnownContexts : kMaxKnownContexts - ledger::kMaxDevices);
}

ContextSum unread_on(std::uint32_t device) {
  ContextSum sum;
  for (const Context& each : recorded) {
    if (each.handle == nullptr || each.device_index != device || !each.awaits_reading) continue;
    ++sum.count;
    sum.charged_bytes += each.charged_bytes;
  }
  return sum;
}

void charge_unread(std::uint32_t device, std::uint64_t bytes, bool still_await) {
  for (Context& each : recorded) {
    if (each.handle == nullptr || each.device_index != device || !each.awaits_reading) continue;
    each.charged_bytes = bytes;
    each.awaits_reading = still_await;
  }
}

std::int64_t more_than(const ContextSum& before, std::uint64_t bytes) {
  return static_cast<std::int64_t>(before.count * bytes) - static_cast<std::int64_t>(before.charged_bytes);
}

}  // namespace

ContextSize context_size(std::uint32_t device) {
  if (!seated() || device >= ledger::kMaxDevices) return {};
  if (const std::uint64_t measured = measured_size(device); measured != 0) return {measured, true};
  const bare::Locked locked(contexts_lock);
  return {guesses[device], false};
}

bool context_came(abi::CUcontext handle, std::uint32_t device, std::uint64_t charged_bytes, bool is_primary) {
  const bare::Locked locked(contexts_lock);
  if (handle == nullptr) return false;
  if (Context* const known = find_context(handle); known != nullptr) {
    known->leaving = 0;  // the one before is gone, and its charge is this one's
    return false;
  }
  if (Context* const free = free_place(is_primary); free != nullptr) {
    *free = {handle, device, true, charged_bytes};
  } else {
    ++unrecorded[device].count;
    unrecorded[device].charged_bytes += charged_bytes;
  }
  return true;
}

bool context_may_leave(abi::CUcontext handle) {
  const bare::Locked locked(contexts_lock);
  Context* const known = handle != nullptr ? find_context(handle) : nullptr;
  if (known != nullptr) ++known->leaving;
  return known != nullptr;
}

void context_stays(abi::CUcontext handle) {
  const bare::Locked locked(contexts_lock);
  Context* const known = handle != nullptr ? find_context(handle) : nullptr;
  if (known != nullptr && known->leaving != 0) --known->leaving;
}

std::uint64_t context_left(abi::CUcontext handle) {
  const bare::Locked locked(contexts_lock);
  Context* const known = handle != nullptr ? find_context(handle) : nullptr;
  if (known == nullptr || known->leaving == 0) return 0;
  const std::uint64_t charged_bytes = known->charged_bytes;
  *known = {};
  return charged_bytes;
}

std::uint64_t unrecorded_context_left(std::uint32_t device) {
  if (device >= ledger::kMaxDevices) return 0;
  const bare::Locked locked(contexts_lock);
  ContextSum& sum = unrecorded[device];
  if (sum.count == 0) return 0;
  const std::uint64_t charged_bytes = sum.charged_bytes / sum.count;
  --sum.count;
  sum.charged_bytes -= charged_bytes;
  return charged_bytes;
}

std::uint32_t known_contexts(abi::CUcontext (&handles)[kMaxKnownContexts]) {
  const bare::Locked locked(contexts_lock);
  std::uint32_t count = 0;
  for (const Context& each : recorded) {
    if (each.handle != nullptr) handles[count++] = each.handle;
  }
  return count;
}

bool context_awaits_reading(std::uint32_t device) {
  if (!contexts_lock.try_lock()) return false;
  const bool awaits = unread_on(device).count != 0;
  contexts_lock.unlock();
  return awaits;
}

std::int64_t learn_contexts(std::uint32_t device, std::uint64_t measured, std::uint64_t told) {
  if (measured == 0) return 0;  // NVML does not list this process (yet)
  if (!contexts_lock.try_lock()) return 0;
  const ContextSum before = unread_on(device);
  // Memory of other explained calls may come later, so this is a lower bound for the contexts.
  const std::uint64_t others = bare::saturating_sub(told, before.charged_bytes);
  const std::uint64_t size = before.count != 0 ? believable(bare::saturating_sub(measured, others) / before.count) : 0;
  if (size != 0) charge_unread(device, size, false);
  contexts_lock.unlock();
  if (size == 0) return 0;
  // A reading does not separate several contexts, nor a context from what other calls took.
  if (before.count == 1 && told == before.charged_bytes) know_size(device, size);
  return more_than(before, size);
}

std::int64_t guess_contexts(std::uint32_t device, std::uint64_t bytes) {
  if (device >= ledger::kMaxDevices || bytes == 0 || bytes > kLargestContext) return 0;
  const bare::Locked locked(contexts_lock);
  const bool again = session.usage->compute[device].context_seen_bytes.exchange(bytes) == bytes;
  if (again) know_size(device, bytes);
  if (again || guesses[device] == 0) guesses[device] = bytes;
  ContextSum before = unread_on(device), &others = unrecorded[device];
  before.count += others.count;
  before.charged_bytes += others.charged_bytes;
  charge_unread(device, guesses[device], true);
  others.charged_bytes = others.count * guesses[device];
  return more_than(before, guesses[device]);
}

std::size_t free_in_a_context(std::uint32_t device) {
  const bare::Locked locked(contexts_lock);
  for (const Context& each : recorded) {
    if (each.handle == nullptr || each.device_index != device || each.leaving != 0 ||
        forward(driver.cuCtxPushCurrent_v2, each.handle) != abi::CUDA_SUCCESS)
      continue;
    const std::size_t bytes = free_on_card();
    abi::CUcontext popped = nullptr;
    forward(driver.cuCtxPopCurrent_v2, &popped);
    return bytes;
  }
  return SIZE_MAX;
}

void context_size_reset_after_fork() {
  contexts_lock.reset();
  for (Context& each : recorded) each = {};
  for (ContextSum& each : unrecorded) each = {};
}

}  // namespace headgate::limiter
