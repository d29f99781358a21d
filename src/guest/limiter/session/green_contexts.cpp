#include "guest/limiter/session/green_contexts.hpp"

#include <atomic>
#include <span>

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

std::span<Green> known_greens() { return std::span(known).first(seen.load(std::memory_order_acquire)); }

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
  for (const Green& green : known_greens())
    if (green.handle.load(std::memory_order_relaxed) == context)
      if (CUcontext primary = green.primary.load(std::memory_order_acquire)) return primary;
  return context;
}

void forget_green(CUcontext handle) {
  for (Green& green : known_greens()) {
    if (green.handle.load() != handle) continue;
    green.primary.store(nullptr);
    green.handle.store(nullptr);
  }
}

void forget_green_of(CUcontext primary, void (*forget)(CUcontext)) {
  for (const Green& green : known_greens()) {
    CUcontext handle = green.handle.load();
    if (handle == nullptr || green.primary.load() != primary) continue;
    forget(handle);
    forget_green(handle);
  }
}

}  // namespace headgate::limiter
