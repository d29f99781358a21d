#include "guest/limiter/stream/captures.hpp"

#include <pthread.h>

#include <array>

#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/stream/short_lock.hpp"

namespace headgate::limiter {

constinit std::atomic<std::uint32_t> open_captures{0};

namespace {

struct Origin {
  abi::CUstream stream = nullptr;  // null: free; the legacy stream cannot capture
  abi::CUcontext context = nullptr;
  pthread_t thread = 0;  // of a thread's own default stream: all threads have one handle for theirs

  friend bool operator==(const Origin&, const Origin&) = default;
};

Origin origin_of(abi::CUstream stream) {
  Origin origin{.stream = stream, .context = nullptr, .thread = 0};
  if (driver.cuCtxGetCurrent != nullptr) driver.cuCtxGetCurrent(&origin.context);
  if (stream == abi::stream_per_thread()) origin.thread = ::pthread_self();
  return origin;
}

// More captures at once than places only cost time: the process then asks the driver at each launch for ever.
constexpr std::size_t kPlaces = 64;

struct Origins {
  ShortLock lock;
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
  // An error is the launch's to answer: of the legacy stream beside a capturing blocking one it says that a capture is
  // near.
  return driver.cuStreamIsCapturing(stream, &status) != abi::CUDA_SUCCESS ||
         status != abi::CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

bool capturing(abi::CUstream stream) {
  if (open_captures.load(std::memory_order_acquire) == 0 || driver.cuStreamIsCapturing == nullptr) return false;
  return captures_on(stream);
}

// The count is up before the driver starts a capture and down only after it has ended.
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

// Whatever the driver answered: a wrong thread's end ends nothing, a broken capture's does.
void capture_may_have_ended(abi::CUstream stream) {
  if (open_captures.load() == 0 || driver.cuStreamIsCapturing == nullptr || captures_on(stream)) return;
  capture_stream_gone(stream);
}

void capture_stream_gone(abi::CUstream stream) {
  if (open_captures.load() == 0) return;
  // A stream of the program's is one stream whatever context is current.
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
