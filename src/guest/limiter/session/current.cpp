#include "guest/limiter/session/current.hpp"

#include <atomic>
#include <cstdint>

#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {
namespace {

std::atomic<std::uint64_t> contexts_epoch{1};

struct Remembered {
  abi::CUcontext context;
  abi::CUdevice device;
  std::uint64_t epoch;  // contexts_epoch when the driver was asked; 0: nothing is cached
};
__thread Remembered mine __attribute__((tls_model("initial-exec")));

}  // namespace

abi::CUresult current_context(Current& out) {
  const std::uint64_t epoch = contexts_epoch.load(std::memory_order_acquire);
  if (mine.epoch == epoch) [[likely]] {
    out = {mine.context, mine.device};
    return abi::CUDA_SUCCESS;
  }
  mine.epoch = 0;
  abi::CUresult result = forward(driver.cuCtxGetCurrent, &out.context);
  if (result == abi::CUDA_SUCCESS && out.context == nullptr) result = abi::CUDA_ERROR_INVALID_CONTEXT;
  if (result == abi::CUDA_SUCCESS) result = forward(driver.cuCtxGetDevice, &out.device);
  if (result != abi::CUDA_SUCCESS) return result;
  mine = {out.context, out.device, epoch};
  return result;
}

bool device_of(abi::CUcontext context, abi::CUdevice& device) {
  if (forward(driver.cuCtxPushCurrent_v2, context) != abi::CUDA_SUCCESS) return false;
  const bool told = forward(driver.cuCtxGetDevice, &device) == abi::CUDA_SUCCESS;
  abi::CUcontext popped = nullptr;
  forward(driver.cuCtxPopCurrent_v2, &popped);
  return told;
}

void current_changed() { mine.epoch = 0; }

void contexts_changed() { contexts_epoch.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace headgate::limiter
