#include "guest/limiter/compute/captures.hpp"

#include <array>

#include "guest/limiter/compute/process.hpp"

namespace headgate::limiter {
namespace {

struct Origin {
  std::uint64_t stream = 0;  // its number; 0: free
  abi::CUcontext context = nullptr;
};

// More captures at once than places only cost time: the process then asks the driver at each launch for ever.
constexpr std::size_t kPlaces = 64;

struct Origins {
  ShortLock lock;
  std::array<Origin, kPlaces> places;
};
constinit Origins origins{};

template <typename Wanted>
void remove(const Wanted& wanted) {
  if (metered.captures.load() == 0) return;
  origins.lock.lock();
  for (Origin& origin : origins.places) {
    if (origin.stream == 0 || !wanted(origin)) continue;
    origin = {};
    metered.captures.fetch_sub(1);
  }
  origins.lock.unlock();
}

bool captures_on(abi::CUstream stream) {
  abi::CUstreamCaptureStatus status = abi::CU_STREAM_CAPTURE_STATUS_NONE;
  // An error is the launch's to answer: of the legacy stream beside a capturing blocking one it says that a capture is near.
  return driver.cuStreamIsCapturing(stream, &status) != abi::CUDA_SUCCESS ||
         status != abi::CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

bool capturing(abi::CUstream stream) {
  if (metered.captures.load(std::memory_order_acquire) == 0 || driver.cuStreamIsCapturing == nullptr) return false;
  return captures_on(stream);
}

std::uint64_t stream_number(abi::CUstream stream) {
  unsigned long long id = 0;
  if (driver.cuStreamGetId == nullptr || driver.cuStreamGetId(stream, &id) != abi::CUDA_SUCCESS)
    return reinterpret_cast<std::uintptr_t>(stream);
  return id;
}

// The count is up before the driver starts a capture and down only after it has ended.
void capture_begins() {
  metered.captures.fetch_add(1);
  move_lane_epoch();
}

void capture_begun(abi::CUstream stream, abi::CUresult result) {
  if (result != abi::CUDA_SUCCESS) {
    metered.captures.fetch_sub(1);
    return;
  }
  abi::CUcontext context = nullptr;
  if (driver.cuCtxGetCurrent != nullptr) driver.cuCtxGetCurrent(&context);
  const std::uint64_t number = stream_number(stream);
  origins.lock.lock();
  for (Origin& origin : origins.places) {
    if (origin.stream != 0) continue;
    origin = {number, context};
    break;
  }
  origins.lock.unlock();
}

// Whatever the driver answered: a wrong thread's end ends nothing, a broken capture's does.
void capture_may_have_ended(abi::CUstream stream) {
  if (metered.captures.load() == 0 || driver.cuStreamIsCapturing == nullptr || captures_on(stream)) return;
  capture_stream_gone(stream_number(stream));
}

void capture_stream_gone(std::uint64_t number) {
  remove([number](const Origin& origin) { return origin.stream == number; });
}

void captures_of_context_gone(abi::CUcontext context) {
  remove([context](const Origin& origin) { return origin.context == context; });
}

void forget_captures_after_fork() {
  origins.lock.reset();
  origins.places = {};
  metered.captures.store(0);
}

RelaxedQuestions::RelaxedQuestions() {
  changed_ = metered.captures.load() != 0 && driver.cuThreadExchangeStreamCaptureMode != nullptr &&
             driver.cuThreadExchangeStreamCaptureMode(&mode_) == abi::CUDA_SUCCESS;
}
RelaxedQuestions::~RelaxedQuestions() {
  if (changed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace headgate::limiter
