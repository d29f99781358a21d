#include "guest/limiter/memory/card_free.hpp"

#include "guest/bare/saturating.hpp"
#include "guest/limiter/memory/context_size.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"

namespace headgate::limiter {
namespace {

std::size_t free_by_cuda(std::uint32_t device) {
  const Place here = current_place();
  const bool is_current = here.standing == Standing::held && here.device_index == device;
  return is_current ? free_on_card() : free_in_a_context(device);
}

std::size_t free_by_nvml(std::uint32_t device) {
  abi::nvmlDevice_t card = nullptr;
  abi::nvmlMemory_t memory{};
  const bool is_told = nvml_ready() && find_card(device, card) == abi::NVML_SUCCESS &&
                       forward(nvml.nvmlDeviceGetMemoryInfo, card, &memory) == abi::NVML_SUCCESS;
  return is_told ? memory.free : SIZE_MAX;
}

// Under a daemon that tells what this card's processes use, the limiter loads no NVML.
bool daemon_tells(std::uint32_t device) {
  std::uint64_t unattributed = 0;
  return fresh_reading() && told_unattributed(device, unattributed);
}

}  // namespace

CardFree::CardFree(std::uint32_t device_index) : device_index_(device_index), before_(free_by_cuda(device_index)) {
  if (before_ != SIZE_MAX || daemon_tells(device_index)) return;
  by_nvml_ = true;
  before_ = free_by_nvml(device_index);
}

std::size_t CardFree::now() const { return by_nvml_ ? free_by_nvml(device_index_) : free_by_cuda(device_index_); }

std::uint64_t CardFree::decrease() const { return is_known() ? bare::saturating_sub(before_, now()) : 0; }

std::uint64_t CardFree::increase() const {
  const std::size_t is = is_known() ? now() : SIZE_MAX;
  return is != SIZE_MAX ? bare::saturating_sub(is, before_) : 0;
}

ContextTrial try_context(std::uint32_t device_index, abi::CUdevice device) {
  const CardFree without(device_index);
  abi::CUcontext trial = nullptr, before = nullptr, after = nullptr;
  if (!without.is_known() || forward(driver.cuCtxGetCurrent, &before) != abi::CUDA_SUCCESS ||
      forward(driver.cuCtxCreate_v2, &trial, 0u, device) != abi::CUDA_SUCCESS)
    return {};
  current_changed();
  const CardFree with(device_index);
  const std::uint64_t taken_bytes = without.decrease();
  // A trial that stays must not stay current.
  if (forward(driver.cuCtxDestroy_v2, trial) != abi::CUDA_SUCCESS) forward(driver.cuCtxPopCurrent_v2, &trial);
  if (forward(driver.cuCtxGetCurrent, &after) == abi::CUDA_SUCCESS && after != before)
    forward(driver.cuCtxSetCurrent, before);
  current_changed();
  return {.taken_bytes = taken_bytes, .returned_bytes = with.increase()};
}

}  // namespace headgate::limiter
