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
// Identifies the mapped files: the share's pages, and the boards.
struct Files {
  HandedFile own, boards[ledger::kMaxDevices];
  friend bool operator==(const Files&, const Files&) = default;
};
Files mapped;

}  // namespace

bool take_gpu_pages(const ledger::PolicyPage& policy, int own_fd, std::span<const ledger::Descriptor> boards) {
  constexpr std::size_t kBytes = sizeof(ledger::GpuPage);
  const std::uint32_t count = policy.device_count;
  Files now{.own = file_of(own_fd), .boards = {}};
  for (std::uint32_t d = 0; d < ledger::kMaxDevices && d < boards.size(); ++d) now.boards[d] = file_of(boards[d].get());
  // A doorbell is renewed each time it is shut down: map only new files. Old ones stay, for threads that read them.
  if (now == mapped) return false;
  mapped = now;
  auto* const own = static_cast<ledger::GpuPage*>(map_handed(own_fd, count * kBytes, PROT_READ | PROT_WRITE));
  if (own == nullptr) mapped = {};
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
  return true;
}

GpuPages gpu_pages_of(std::uint32_t device) {
  const ledger::GpuPage* const board = pages[device].board.load(std::memory_order_acquire);
  ledger::GpuPage* const own = pages[device].own.load(std::memory_order_relaxed);
  return own == nullptr || board == nullptr ? GpuPages{} : GpuPages{own, board};
}

std::uint32_t gpu_pages_epoch() { return epoch.load(std::memory_order_acquire); }

}  // namespace headgate::limiter
