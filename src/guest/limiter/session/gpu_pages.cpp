#include "guest/limiter/session/gpu_pages.hpp"

#include <sys/mman.h>

#include <atomic>

#include "guest/limiter/session/handed.hpp"

namespace headgate::limiter {
namespace {

struct Pages {
  std::atomic<ledger::GpuPage*> own{nullptr};
  std::atomic<const ledger::GpuPage*> board{nullptr};
};
Pages pages[ledger::kMaxDevices];
std::atomic<std::uint32_t> epoch{1};

}  // namespace

void take_gpu_pages(const ledger::PolicyPage& policy, int own_fd, std::span<const ledger::Descriptor> boards) {
  constexpr std::size_t kBytes = sizeof(ledger::GpuPage);
  const std::uint32_t count = policy.device_count;
  auto* const own = static_cast<ledger::GpuPage*>(map_handed(own_fd, count * kBytes, PROT_READ | PROT_WRITE));
  for (std::uint32_t d = 0; d < ledger::kMaxDevices; ++d) {
    void* const at =
        own != nullptr && d < count && d < boards.size() ? map_handed(boards[d].get(), kBytes, PROT_READ) : nullptr;
    const auto* board = static_cast<const ledger::GpuPage*>(at);
    const bool good = board != nullptr && !ledger::check_gpu_page(*board, policy.devices[d].uuid) &&
                      !ledger::check_gpu_page(own[d], policy.devices[d].uuid);
    if (board != nullptr && !good) ::munmap(at, kBytes);
    pages[d].own.store(good ? own + d : nullptr, std::memory_order_relaxed);
    pages[d].board.store(good ? board : nullptr, std::memory_order_release);
  }
  epoch.fetch_add(1, std::memory_order_release);
}

GpuPages gpu_pages_of(std::uint32_t device) {
  const ledger::GpuPage* const board = pages[device].board.load(std::memory_order_acquire);
  ledger::GpuPage* const own = pages[device].own.load(std::memory_order_relaxed);
  return own == nullptr || board == nullptr ? GpuPages{} : GpuPages{own, board};
}

std::uint32_t gpu_pages_epoch() { return epoch.load(std::memory_order_acquire); }

}  // namespace headgate::limiter
