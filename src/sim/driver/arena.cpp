#include "sim/driver/arena.hpp"

#include <sys/mman.h>
#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

namespace headgate::sim::driver {
namespace {

constexpr std::uint64_t kSlabBytes = 2 << 20, kLargestSmall = 256 << 10, kPage = 4096;

std::uint64_t map(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(memory);
}

struct Arena {
  std::mutex lock;
  std::vector<std::uint64_t> free[64];  // by size class: powers of two
};
Arena& arena() {
  static Arena& forever = *new Arena;
  return forever;
}

std::uint64_t class_bytes(std::uint64_t bytes) { return std::bit_ceil(std::max(bytes, kAlignment)); }

}  // namespace

std::uint64_t arena_take(std::uint64_t bytes) {
  if (bytes > kLargestSmall) return bytes > ~0ull - kPage ? 0 : map((bytes + kPage - 1) / kPage * kPage);
  const std::uint64_t size = class_bytes(bytes);
  Arena& a = arena();
  const std::lock_guard guard(a.lock);
  auto& free = a.free[std::countr_zero(size)];
  if (free.empty()) {
    const std::uint64_t slab = map(kSlabBytes);
    if (slab == 0) return 0;
    for (std::uint64_t at = kSlabBytes; at >= size; at -= size) free.push_back(slab + at - size);
  }
  const std::uint64_t address = free.back();
  free.pop_back();
  return address;
}

void arena_give(std::uint64_t address, std::uint64_t bytes) {
  if (bytes > kLargestSmall) {
    ::munmap(reinterpret_cast<void*>(address), (bytes + kPage - 1) / kPage * kPage);
    return;
  }
  Arena& a = arena();
  const std::lock_guard guard(a.lock);
  a.free[std::countr_zero(class_bytes(bytes))].push_back(address);
}

}  // namespace headgate::sim::driver
