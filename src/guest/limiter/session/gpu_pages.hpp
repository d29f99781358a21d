// The pages of GPUs that headgated hands out (guest/ledger/gpu_page.hpp): where this process marks its work, and where
// it reads who else had some.
#pragma once

#include <cstdint>
#include <span>

#include "guest/ledger/directory.hpp"
#include "guest/ledger/gpu_page.hpp"

namespace headgate::limiter {

struct GpuPages {
  ledger::GpuPage* own = nullptr;          // null: none was handed out
  const ledger::GpuPage* board = nullptr;  // not null where `own` is not
};

// Of the share's devices in their order: a descriptor of all of its own pages, and one of each board. What is not what
// it should be is left out, and what is there already is not mapped again. Whether there are others than before: a
// daemon's own are no other one's. Not thread-safe with itself.
bool take_gpu_pages(const ledger::PolicyPage& policy, int own, std::span<const ledger::Descriptor> boards);
// Pages that were handed out before stay mapped. Thread-safe.
GpuPages gpu_pages_of(std::uint32_t device);
// The page that all shares of this user write where no daemon runs; opened at the first call. Null under a daemon, and
// where it cannot be opened: why is said once. Thread-safe.
ledger::GpuPage* users_gpu_page(std::uint32_t device);
void users_gpu_page_reset_after_fork();
// Moves when others were handed out; never 0. Thread-safe.
std::uint32_t gpu_pages_epoch();

}  // namespace headgate::limiter
