#include "guest/limiter/stream/captures.hpp"

#include <pthread.h>

#include <array>

#include "guest/bare/short_lock.hpp"
#include "guest/limiter/route/driver.hpp"

namespace headgate::limiter {

constinit std::atomic<std::uint32_t> open_captures{0};

namespace {

struct Origin {
  abi::CUstream stream = nullptr;  // null: unused; the legacy stream cannot capture
  abi::CUcontext context = nullptr;
  pthread_t thread = 0;  // for a thread's default stream: all threads use the same handle for it

  friend bool operator==(const Origin&, const Origin&) = default;
};

Origin origin_of(abi::CUstream stream) {
  Origin origin{.stream = stream, .context = nullptr, .thread = 0};
  if (driver.cuCtxGetCurrent != nullptr) driver.cuCtxGetCurrent(&origin.context);
  if (stream == abi::stream_per_thread()) origin.thread = ::pthread_self();
  return origin;
}

// If a process has more captures at once than places, it only becomes slower: from then on it asks the driver at every
// launch.
constexpr std::size_t kPlaces = 64;

struct Origins {
  bare::ShortLock lock;
  std::array<Origin, kPlaces> places;
};
constinit Origins origins{};

template <typename Wanted>
void remove(const Wanted& wanted) {
  if (open_captures.load() == 0) return;
  origins.lock.lock();
  for (Origin& origin : origins.places) {
    if (origin.stream == nullptr || !wanted(origin)) continue;
    origin = {};
    open_captures.fetch_sub(1);
  }
  origins.lock.unlock();
}

bool captures_on(abi::CUstream stream) {
  abi::CUstreamCaptureStatus status = abi::CU_STREAM_CAPTURE_STATUS_NONE;
  // Treat an error as a capture and leave the call to the driver: the legacy stream gives one if a blocking stream is
  // capturing.
  return driver.cuStreamIsCapturing(stream, &status) != abi::CUDA_SUCCESS ||
         status != abi::CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

bool capturing(abi::CUstream stream) {
  if (open_captures.load(std::memory_order_acquire) == 0 || driver.cuStreamIsCapturing == nullptr) return false;
  return captures_on(stream);
}

// The count is raised before the driver starts a capture and lowered only after the capture has ended.
void capture_begins() { open_captures.fetch_add(1); }

void capture_begun(abi::CUstream stream, abi::CUresult result) {
  if (result != abi::CUDA_SUCCESS) {
    open_captures.fetch_sub(1);
    return;
  }
  const Origin begun = origin_of(stream);
  origins.lock.lock();
  for (Origin& origin : origins.places) {
    if (origin.stream != nullptr) continue;
    origin = begun;
    break;
  }
  origins.lock.unlock();
}

// Whatever the driver returned: an end by the wrong thread ends nothing, the end of a broken capture does.
void capture_may_have_ended(abi::CUstream stream) {
  if (open_captures.load() == 0 || driver.cuStreamIsCapturing == nullptr || captures_on(stream)) return;
  capture_stream_gone(stream);
}

void capture_stream_gone(abi::CUstream stream) {
  if (open_captures.load() == 0) return;
  // A stream of the program is the same stream in any context.
  const bool own = stream != abi::stream_per_thread();
  remove([own, gone = origin_of(stream)](const Origin& origin) {
    return own ? origin.stream == gone.stream : origin == gone;
  });
}

void captures_of_context_gone(abi::CUcontext context) {
  remove([context](const Origin& origin) { return origin.context == context; });
}

void forget_captures_after_fork() {
  origins.lock.reset();
  origins.places = {};
  open_captures.store(0);
}

RelaxedQuestions::RelaxedQuestions() {
  changed_ = open_captures.load() != 0 && driver.cuThreadExchangeStreamCaptureMode != nullptr &&
             driver.cuThreadExchangeStreamCaptureMode(&mode_) == abi::CUDA_SUCCESS;
}
RelaxedQuestions::~RelaxedQuestions() {
  if (changed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace headgate::limiter
