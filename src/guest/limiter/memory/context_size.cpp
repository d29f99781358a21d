#include "guest/limiter/memory/context_size.hpp"

#include <atomic>

#include "guest/bare/saturating.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"

namespace headgate::limiter {
namespace {

// By device: 1 + the charge for the context to be measured; 0: none.
std::atomic<std::uint64_t> unlearnt[ledger::kMaxDevices];
std::atomic<std::uint64_t> guessed[ledger::kMaxDevices];
std::atomic<bool> several[ledger::kMaxDevices];  // several contexts, which a reading cannot separate

std::uint32_t driver_version() {
  int version = 0;
  return forward(driver.cuDriverGetVersion, &version) == abi::CUDA_SUCCESS ? static_cast<std::uint32_t>(version) : 0;
}

std::uint64_t believable(std::uint64_t bytes) { return bytes <= kLargestContext ? bytes : 0; }

}  // namespace

std::uint64_t context_bytes(std::uint32_t device) {
  if (!seated() || device >= ledger::kMaxDevices) return 0;
  const std::uint64_t shares = believable(session.usage->compute[device].context_bytes.load(std::memory_order_relaxed));
  if (shares != 0) return shares;
  if (const std::uint64_t told = believable(told_context_bytes(device)); told != 0) return told;
  const ledger::GpuPage* const page = users_gpu_page(device);
  const bool is_known = page != nullptr && page->context_driver.load(std::memory_order_acquire) == driver_version();
  const std::uint64_t users = is_known ? believable(page->context_bytes.load(std::memory_order_relaxed)) : 0;
  return users != 0 ? users : guessed[device].load(std::memory_order_relaxed);
}

void guess_context_bytes(std::uint32_t device, std::uint64_t bytes) {
  if (device < ledger::kMaxDevices && bytes <= kLargestContext) guessed[device].store(bytes, std::memory_order_relaxed);
}

void know_context_bytes(std::uint32_t device, std::uint64_t bytes) {
  if (!seated() || device >= ledger::kMaxDevices || bytes == 0 || bytes > kLargestContext) return;
  session.usage->compute[device].context_bytes.store(bytes, std::memory_order_relaxed);
  ledger::GpuPage* const page = users_gpu_page(device);
  if (page == nullptr) return;
  page->context_bytes.store(bytes, std::memory_order_relaxed);
  page->context_driver.store(driver_version(), std::memory_order_release);
}

bool context_awaits_reading(std::uint32_t device) {
  return device < ledger::kMaxDevices && unlearnt[device].load(std::memory_order_relaxed) != 0;
}

void context_went(std::uint32_t device) {
  if (device < ledger::kMaxDevices && !several[device].load(std::memory_order_relaxed)) unlearnt[device].store(0);
}

std::uint64_t charge_unread_context(std::uint32_t device, std::uint64_t bytes) {
  if (device >= ledger::kMaxDevices || several[device].load(std::memory_order_relaxed)) return 0;
  const std::uint64_t charged = unlearnt[device].exchange(0);
  return charged == 0 ? 0 : bare::saturating_sub(bytes, charged - 1);
}

void context_came(std::uint32_t device, std::uint64_t assumed_bytes) {
  if (device >= ledger::kMaxDevices) return;
  const std::uint64_t before = unlearnt[device].load(std::memory_order_relaxed);
  if (before != 0) several[device].store(true, std::memory_order_relaxed);
  unlearnt[device].store((before == 0 ? 1 : before) + assumed_bytes, std::memory_order_relaxed);
}

std::int64_t learn_context(std::uint32_t device, std::uint64_t measured, std::uint64_t told) {
  if (device >= ledger::kMaxDevices || unlearnt[device].load(std::memory_order_relaxed) == 0) [[likely]]
    return 0;
  if (measured == 0) return 0;  // NVML does not list this process (yet)
  const std::uint64_t charged = unlearnt[device].exchange(0);
  if (charged == 0) return 0;
  const std::uint64_t assumed = charged - 1;
  const bool alone = !several[device].exchange(false) && told == assumed;
  // Memory of other explained calls may come later, so this is a lower bound for the contexts.
  const std::uint64_t others = told > assumed ? told - assumed : 0;
  const std::uint64_t size = measured > others ? measured - others : 0;
  if (size == 0 || size > kLargestContext) return 0;
  if (alone) know_context_bytes(device, size);
  return static_cast<std::int64_t>(size) - static_cast<std::int64_t>(assumed);
}

void context_size_reset_after_fork() {
  for (auto& device : unlearnt) device.store(0, std::memory_order_relaxed);
  for (auto& device : several) device.store(false, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
