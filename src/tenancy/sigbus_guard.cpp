#include "tenancy/sigbus_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

namespace headgate::tenancy {
namespace {

// `begin` is written last when a range is added, first when it is removed: the handler may read it at any moment.
struct Range {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> taken{false}, truncated{false};
};
constinit std::array<Range, SigbusGuard::kMaxGuards> ranges{};
constinit thread_local int scopes = 0;

bool put_zeroes(std::uintptr_t at, std::size_t bytes) {
  return ::mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

void on_bus_error(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Range& range : ranges) {
    const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
    const std::size_t bytes = range.bytes.load(std::memory_order_relaxed);
    if (begin == 0 || at < begin || at - begin >= bytes) continue;
    if (!put_zeroes(begin, bytes)) break;
    range.truncated.store(true, std::memory_order_release);
    errno = saved;
    return;
  }
  constexpr std::uintptr_t kPage = 4096;  // no page is smaller; a larger one faults again at its next part
  if (scopes > 0 && info->si_code == BUS_ADRERR && put_zeroes(at / kPage * kPage, kPage)) {
    errno = saved;
    return;
  }
  // Not ours: end the process here. If the file has been made long again, a repeated access would succeed. The process
  // would go on without a handler, and die of the next access that is ours.
  ::signal(number, SIG_DFL);
  sigset_t ours;
  ::sigemptyset(&ours);
  ::sigaddset(&ours, number);
  ::pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
  ::raise(number);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = &on_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

}  // namespace

SigbusGuard::SigbusGuard(void* at, std::size_t bytes) {
  install();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    bool free = false;
    if (!ranges[i].taken.compare_exchange_strong(free, true)) continue;
    ranges[i].truncated.store(false, std::memory_order_relaxed);
    ranges[i].bytes.store((bytes + page - 1) / page * page, std::memory_order_relaxed);
    ranges[i].begin.store(reinterpret_cast<std::uintptr_t>(at), std::memory_order_release);
    slot_ = i;
    return;
  }
}

SigbusGuard::SigbusGuard(SigbusGuard&& other) noexcept : slot_(std::exchange(other.slot_, kNone)) {}
SigbusGuard& SigbusGuard::operator=(SigbusGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

SigbusGuard::~SigbusGuard() {
  if (slot_ == kNone) return;
  ranges[slot_].begin.store(0, std::memory_order_release);
  ranges[slot_].taken.store(false, std::memory_order_release);
}

SigbusScope::SigbusScope() {
  install();
  ++scopes;
}
SigbusScope::~SigbusScope() { --scopes; }

bool SigbusGuard::truncated() const {
  return slot_ != kNone && ranges[slot_].truncated.load(std::memory_order_acquire);
}

}  // namespace headgate::tenancy
