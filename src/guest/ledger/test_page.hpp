// A usage page in shared anonymous memory, and seats for made-up processes. For tests.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <memory>

#include "guest/ledger/slot.hpp"
#include "guest/ledger/test_orphans.hpp"

namespace headgate::ledger {

struct Unmap {
  void operator()(UsagePage* page) const { ::munmap(page, sizeof(UsagePage)); }
};
using SharedPage = std::unique_ptr<UsagePage, Unmap>;

inline SharedPage make_shared_page(std::uint32_t devices = 1) {
  void* at = ::mmap(nullptr, sizeof(UsagePage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  SharedPage page(static_cast<UsagePage*>(at));
  page->header = {kUsageMagic, kVersion, sizeof(UsagePage)};
  page->slot_count = kMaxSlots;
  page->device_count = devices;
  return page;
}

// An identity in a separate pid namespace, so that no process takes it for dead.
inline Identity made_up(std::uint32_t pid) { return {pid, 7, pid}; }

inline SlotRef seat(UsagePage& page, const Identity& identity) {
  SlotRef ref;
  if (claim(page, identity, "test", ref) != ClaimResult::claimed) std::abort();
  return ref;
}

inline std::uint64_t sum_of_held(const UsagePage& page, std::uint32_t device = 0) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) sum += held_bytes(page, device, i);
  return sum;
}

}  // namespace headgate::ledger
