#include "node/doorbell.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "guest/ledger/registration.hpp"

namespace headgate::node {
namespace {

// 2,000 rings a second, each heard alone, take three fifths of a share's time. A flood is heard once in 1 ms; single
// rings 3,300 times a second, at some 10 us each.
constexpr std::int64_t kHearNs = 250'000, kRingNs = 48'000, kCreditNs = 10'000'000, kMinPauseNs = 1'000'000;
// Cost of a message that no limiter sends: longer than a byte.
constexpr std::int64_t kStrangeNs = 1'000'000;
// A request that is handed on costs other threads time, too.
constexpr std::int64_t kHandedOnNs = 750'000;
// Each takes two system calls (receive_bytes()); the rest stays in the socket for the next time.
constexpr std::uint32_t kMaxHeardAtOnce = 16;

}  // namespace

Doorbell::Heard Doorbell::hear(std::int64_t now_ns) {
  Heard heard;
  std::int64_t cost_ns = kHearNs;
  while (heard.rings < kMaxHeardAtOnce && !closed_) {
    char said = 0;
    const ssize_t length = receive_bytes(socket_.get(), &said, 1, MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) break;
    closed_ = length <= 0;  // the peer's end is closed, or a message with descriptors was refused
    heard.rings += !closed_;
    cost_ns += length > 1 ? kStrangeNs : kRingNs;
    heard.memory |= said == static_cast<char>(ledger::Ring::memory);
    heard.reading |= said == static_cast<char>(ledger::Ring::reading);
  }
  if (heard.memory || heard.reading) cost_ns += kHandedOnNs;
  paid_ns_ = std::max(paid_ns_, now_ns - kCreditNs) + cost_ns;
  if (paid_ns_ > now_ns) muted_until_ns_ = std::max(paid_ns_, now_ns + kMinPauseNs);
  return heard;
}

}  // namespace headgate::node
