#include "guest/limiter/session/gpu_pages.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace headgate::limiter {
namespace {

struct Pages {
  std::atomic<ledger::GpuPage*> own{nullptr};
  std::atomic<const ledger::GpuPage*> board{nullptr};
};
Pages pages[ledger::kMaxDevices];
std::atomic<std::uint32_t> epoch{1};

void* map(int fd, std::size_t bytes, int protection) {
  struct stat status{};
  // By system call: fstat() is no symbol of GLIBC 2.17.
  if (fd < 0 || ::syscall(SYS_fstat, fd, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    return nullptr;
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

void take_gpu_pages(const ledger::PolicyPage& policy, int own_fd, std::span<const ledger::Descriptor> boards) {
  constexpr std::size_t kBytes = sizeof(ledger::GpuPage);
  const std::uint32_t count = policy.device_count;
  auto* const own = static_cast<ledger::GpuPage*>(map(own_fd, count * kBytes, PROT_READ | PROT_WRITE));
  for (std::uint32_t d = 0; d < ledger::kMaxDevices; ++d) {
    void* const at =
        own != nullptr && d < count && d < boards.size() ? map(boards[d].get(), kBytes, PROT_READ) : nullptr;
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
