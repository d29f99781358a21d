// Green contexts: some of a device's SMs for streams of its primary context.
#pragma once

#include "sim/driver/context/resource_abi.hpp"
#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint32_t kGreenWord = 0x6867726e;

struct GreenContext {
  std::atomic<std::uint32_t> word{0};
  std::uint64_t id = 0;
  Context* view = nullptr;   // from cuCtxFromGreenCtx; its root is the primary context
  Stream* stream = nullptr;  // its default stream
  SmSet set{};
};

Pool<GreenContext>& green_objects();

// Returns the calling thread's current green context; null if it has a plain context or none.
GreenContext* current_green();
// Returns the number of SMs that the stream's kernels may use.
[[nodiscard]] std::uint32_t sms_of(const Stream* stream);
// Ends the green contexts of a primary context that is being destroyed.
void forget_green(const Context* primary);
// Add and drop a reference to the device's primary context (CUDA ordinal). The caller holds contexts_lock.
CUresult retain_primary(int device, Context** out);
CUresult release_primary(int device);

}  // namespace headgate::sim::driver
