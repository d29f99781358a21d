// Green contexts: some of a device's SMs for streams of its primary context.
#pragma once

#include "sim/driver/context/resource_abi.hpp"
#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint32_t kGreenWord = 0x6867726e;

struct GreenContext {
  std::atomic<std::uint32_t> word{0};
  std::uint64_t id = 0;
  Context* view = nullptr;   // what cuCtxFromGreenCtx gives; its root is the primary context
  Stream* stream = nullptr;  // its default stream
  SmSet set{};
};

Pool<GreenContext>& green_objects();

// The green context that is current to the calling thread; null where a plain one is, or none.
GreenContext* current_green();
// SMs for the kernels of a stream.
[[nodiscard]] std::uint32_t sms_of(const Stream* stream);
// The primary context ends: so do its green contexts.
void forget_green(const Context* primary);
// The last or a further user of the device's primary context (CUDA ordinal). The caller holds contexts_lock.
CUresult retain_primary(int device, Context** out);
CUresult release_primary(int device);

}  // namespace headgate::sim::driver
