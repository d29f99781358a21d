// The GPU pages that headgated hands out (guest/ledger/gpu_page.hpp): this process writes its marks there and reads
// those of other processes.
#pragma once

#include <cstdint>
#include <span>

#include "guest/ledger/directory.hpp"
#include "guest/ledger/gpu_page.hpp"

namespace headgate::limiter {

struct GpuPages {
  ledger::GpuPage* own = nullptr;          // null: none was handed out
  const ledger::GpuPage* board = nullptr;  // non-null if `own` is
};

// Takes a descriptor of all the share's own pages, and one board per device of the share, in order. Skips what is
// invalid and does not map a file again. Returns whether there are new pages; another daemon's own pages are new files.
// Not safe against itself in several threads.
bool take_gpu_pages(const ledger::PolicyPage& policy, int own, std::span<const ledger::Descriptor> boards);
// Previously mapped pages stay mapped. Thread-safe.
GpuPages gpu_pages_of(std::uint32_t device);
// Returns the page that all shares of this user write without a daemon; opens it at the first call. Returns null under
// a daemon, or if it cannot be opened: logs the reason once. Thread-safe.
ledger::GpuPage* users_gpu_page(std::uint32_t device);
void users_gpu_page_reset_after_fork();
// Moves when new pages were handed out; never 0. Thread-safe.
std::uint32_t gpu_pages_epoch();

}  // namespace headgate::limiter
