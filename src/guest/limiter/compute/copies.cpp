#include "guest/limiter/compute/copies.hpp"

#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {
namespace {

struct Copy {
  ContextMeter* context = nullptr;  // null: the entry is unused
  StreamMeter* stream = nullptr;
  abi::CUevent start = nullptr, end = nullptr;  // no end: the copy was done at ended_ns
  std::int64_t sent_ns = 0, ended_ns = 0, next_look_ns = 0, rest_ns = 0;
};

// If more copies are in progress, the rest is not measured.
constexpr std::size_t kPlaces = 256;
// Also a limit per stream: two records per copy, in a queue that the program may fill (bracket.hpp).
constexpr std::uint32_t kMaxOfStream = 48;
constexpr std::uint32_t kMaxBehindAWait = 4;  // each takes two places in the driver's queue
constexpr std::int64_t kFirstRestNs = 20'000, kLongestRestNs = 1'000'000;

struct Copies {
  ShortLock lock;
  std::atomic<std::uint32_t> under_way{0};
  std::array<Copy, kPlaces> places;
};
constinit Copies copies{};

bool put(const Copy& copy) {
  copies.lock.lock();
  Copy* free = nullptr;
  for (std::size_t i = 0; i < kPlaces && free == nullptr; ++i)
    if (copies.places[i].context == nullptr) free = &copies.places[i];
  if (free != nullptr) {
    *free = copy;
    copies.under_way.fetch_add(1);
    copy.stream->timed_copies.fetch_add(1);
  }
  copies.lock.unlock();
  return free != nullptr;
}

void give_back(ContextMeter& context, abi::CUevent start, abi::CUevent end) {
  if (start != nullptr && start != context.anchor) meter.give_event(context, start);
  if (end != nullptr) meter.give_event(context, end);
}

// Returns false if a capture forbids a record.
bool record(StreamMeter& stream, abi::CUstream handle, abi::CUevent event) {
  stream.lock.lock();
  const bool allowed =
      !capturing(handle) && !stream.context->failed.load() && port.record(event, handle) == abi::CUDA_SUCCESS;
  stream.lock.unlock();
  return allowed;
}

}  // namespace

CopyBracket::CopyBracket(abi::CUstream stream, bool waits) : handle_(stream), waits_(waits) {
  if (metered.unsettled.load(std::memory_order_relaxed)) return;
  if (open_captures.load(std::memory_order_relaxed) != 0 && capturing(stream)) return;
  if (copies.under_way.load(std::memory_order_relaxed) == kPlaces) return;
  StreamMeter* const meant = find_stream(stream);
  if (meant == nullptr || meant->context->failed.load()) return;
  const std::uint32_t most = meter.is_behind_wait(*meant) ? kMaxBehindAWait : kMaxOfStream;
  if (meant->timed_copies.load(std::memory_order_relaxed) >= most) return;
  ContextMeter& context = *meant->context;
  const CurrentContext as(metered.contexts_seen.load(std::memory_order_relaxed) == 1 ? nullptr : context.handle);
  if (meter.take_event(context, start_) && (waits || meter.take_event(context, end_)) &&
      record(*meant, handle_, start_)) {
    sent_ns_ = port.now_ns();
    stream_ = meant;
    return;
  }
  give_back(context, start_, end_);
}

CopyBracket::~CopyBracket() {
  if (stream_ == nullptr) return;
  ContextMeter& context = *stream_->context;
  const CurrentContext as(metered.contexts_seen.load(std::memory_order_relaxed) == 1 ? nullptr : context.handle);
  const std::int64_t now_ns = port.now_ns();
  const bool sent = (waits_ || record(*stream_, handle_, end_)) &&
                    put({&context, stream_, start_, end_, sent_ns_, now_ns, now_ns + kFirstRestNs, kFirstRestNs});
  if (sent) wake_settler();
  else give_back(context, start_, end_);
}

std::int64_t settle_copies(std::int64_t now_ns) {
  if (copies.under_way.load(std::memory_order_relaxed) == 0) return kNothingOpen;
  std::int64_t next = kNothingOpen;
  for (Copy& place : copies.places) {
    copies.lock.lock();
    const Copy copy = place;
    copies.lock.unlock();
    if (copy.context == nullptr) continue;
    if (now_ns < copy.next_look_ns) {
      next = std::min(next, copy.next_look_ns);
      continue;
    }
    port.enter(*copy.context);
    const abi::CUresult answer =
        copy.context->failed.load() ? abi::CUDA_ERROR_UNKNOWN : port.query(copy.end != nullptr ? copy.end : copy.start);
    if (answer == abi::CUDA_ERROR_NOT_READY) {
      place.rest_ns = std::min(2 * copy.rest_ns, kLongestRestNs);
      place.next_look_ns = now_ns + place.rest_ns;
      next = std::min(next, place.next_look_ns);
      continue;
    }
    if (answer == abi::CUDA_SUCCESS)
      meter.settle_copy(*copy.context, copy.start, copy.end, copy.sent_ns, copy.ended_ns);
    give_back(*copy.context, copy.start, copy.end);
    copies.lock.lock();
    place = {};
    copies.lock.unlock();
    copies.under_way.fetch_sub(1);
    copy.stream->timed_copies.fetch_sub(1);
  }
  return next;
}

void forget_copies(const ContextMeter& context) {
  copies.lock.lock();
  for (Copy& place : copies.places) {
    if (place.context != &context) continue;
    give_back(*place.context, place.start, place.end);
    place.stream->timed_copies.fetch_sub(1);
    place = {};
    copies.under_way.fetch_sub(1);
  }
  copies.lock.unlock();
}

void copies_reset_after_fork() {
  copies.lock.reset();
  copies.places = {};
  copies.under_way.store(0);
}

}  // namespace headgate::limiter
