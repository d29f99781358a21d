// Ends open brackets where a program observes its streams, waits, or destroys them.
#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

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
  for (StreamMeter& stream : metered.used_streams()) {
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
  for (StreamMeter& stream : metered.used_streams()) {
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

}  // namespace headgate::limiter
