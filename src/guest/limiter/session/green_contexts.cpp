#include "guest/limiter/session/green_contexts.hpp"

#include <atomic>

#include "guest/limiter/session/session.hpp"

using namespace headgate::abi;

namespace headgate::limiter {
namespace {

// Written by calls that create and destroy green contexts. cuda.h makes the program responsible for not destroying one
// in use.
constexpr unsigned kMaxGreen = 256;
struct Green {
  std::atomic<CUcontext> handle{nullptr};
  std::atomic<CUcontext> primary{nullptr};
};
constinit Green known[kMaxGreen];
constinit std::atomic<unsigned> seen{0};  // entries from here on are unused

}  // namespace

void know_green(CUcontext handle, CUcontext primary) {
  if (primary == nullptr || root_of(handle) != handle) return;
  for (unsigned i = 0; i < kMaxGreen; ++i) {
    CUcontext none = nullptr;
    if (!known[i].handle.compare_exchange_strong(none, handle)) continue;
    known[i].primary.store(primary, std::memory_order_release);
    unsigned before = seen.load();
    while (before <= i && !seen.compare_exchange_weak(before, i + 1)) {
    }
    return;
  }
  static std::atomic<bool> said;
  if (!said.exchange(true))
    log_line(LogLevel::error, "more than %u green contexts: memory allocated in the others stays charged until the end",
             kMaxGreen);
}

CUcontext root_of(CUcontext context) {
  const unsigned end = seen.load(std::memory_order_acquire);
  for (unsigned i = 0; i < end; ++i)
    if (known[i].handle.load(std::memory_order_relaxed) == context)
      if (CUcontext primary = known[i].primary.load(std::memory_order_acquire)) return primary;
  return context;
}

void forget_green(CUcontext handle) {
  const unsigned end = seen.load(std::memory_order_acquire);
  for (unsigned i = 0; i < end; ++i) {
    if (known[i].handle.load() != handle) continue;
    known[i].primary.store(nullptr);
    known[i].handle.store(nullptr);
  }
}

void forget_green_of(CUcontext primary, void (*forget)(CUcontext)) {
  const unsigned end = seen.load(std::memory_order_acquire);
  for (unsigned i = 0; i < end; ++i) {
    CUcontext handle = known[i].handle.load();
    if (handle == nullptr || known[i].primary.load() != primary) continue;
    forget(handle);
    forget_green(handle);
  }
}

}  // namespace headgate::limiter
