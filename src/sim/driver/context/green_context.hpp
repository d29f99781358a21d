// Green contexts: some of a device's SMs for streams of its primary context.
#pragma once

#include "sim/driver/context/resource_abi.hpp"
#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

struct GreenContext : Handled<0x6867726e, CUDA_ERROR_INVALID_CONTEXT> {
  std::uint64_t id = 0;
  Context* view = nullptr;   // from cuCtxFromGreenCtx; its root is the primary context
  Stream* stream = nullptr;  // its default stream
  SmSet set{};
};

// Returns the calling thread's current green context; null if it has a plain context or none.
GreenContext* current_green();
// Returns the number of SMs that the stream's kernels may use.
[[nodiscard]] std::uint32_t sms_of(const Stream* stream);
// Ends the green contexts of a primary context that is being destroyed.
void forget_green(const Context* primary);
// Add and drop a reference to the device's primary context (CUDA ordinal). The caller holds contexts_lock.
CUresult retain_primary(int device, Context** out);
CUresult release_primary(int device);

// Events of a whole context: record waits for all work of its streams; wait delays all work submitted to them later.
// `green`: only that context's streams; null: all streams. INVALID_HANDLE for an event of another context;
// STREAM_CAPTURE_UNSUPPORTED while one of the context's streams captures, which breaks that capture.
CUresult record_context(Context* context, const GreenContext* green, CUevent event);
// Streams that are created later do not wait.
CUresult context_waits(Context* context, const GreenContext* green, CUevent event);

}  // namespace headgate::sim::driver
