#include <sys/mman.h>

#include <atomic>

#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

std::atomic<ledger::GpuPage*> users[ledger::kMaxDevices];
std::atomic<bool> said_unusable{false};

[[gnu::noinline]] void say_unusable(const ledger::PageFault& bad) {
  char why[512];
  ledger::explain(bad, why, sizeof why);
  if (!said_unusable.exchange(true))
    log_line(LogLevel::warn, "time slices of other shares on this GPU are charged to this one: %s", why);
}

}  // namespace

ledger::GpuPage* users_gpu_page(std::uint32_t device) {
  if (session.base[0] == '\0' || gpu_pages_of(device).own != nullptr) return nullptr;
  ledger::GpuPage* page = users[device].load(std::memory_order_acquire);
  if (page != nullptr) return page;
  if (const ledger::PageFault bad = ledger::open_gpu_page(session.base, session.held.devices[device].uuid, page)) {
    say_unusable(bad);
    return nullptr;
  }
  ledger::GpuPage* none = nullptr;
  if (users[device].compare_exchange_strong(none, page)) return page;
  ::munmap(page, sizeof *page);  // another thread was faster
  return none;
}

void users_gpu_page_reset_after_fork() {
  for (auto& page : users) page.store(nullptr, std::memory_order_relaxed);
  said_unusable.store(false, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
