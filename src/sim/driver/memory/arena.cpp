#include "sim/driver/memory/arena.hpp"

#include <sys/mman.h>
#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {
namespace {

constexpr std::uint64_t kLargestSmall = 1 << 20, kArenaPage = 4096;

std::uint64_t map(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(memory);
}

// Aligned, so that a piece's address identifies its slab.
std::uint64_t map_slab() {
  const std::uint64_t wide = map(2 * kSlabBytes);
  if (wide == 0) return 0;
  const std::uint64_t slab = (wide + kSlabBytes - 1) / kSlabBytes * kSlabBytes;
  if (slab > wide) ::munmap(reinterpret_cast<void*>(wide), slab - wide);
  if (slab < wide + kSlabBytes) ::munmap(reinterpret_cast<void*>(slab + kSlabBytes), wide + kSlabBytes - slab);
  return slab;
}

// Pieces of one size (a power of two) with one owner.
struct Slab {
  const void* owner = nullptr;
  std::uint64_t size = 0;
  std::uint32_t pieces = 0;         // in use
  std::vector<std::uint32_t> free;  // offsets
};
using Kind = std::pair<const void*, std::uint64_t>;

struct Arena {
  std::mutex lock;
  std::unordered_map<std::uint64_t, Slab> slabs;     // by base
  std::map<Kind, std::vector<std::uint64_t>> roomy;  // bases of slabs with pieces taken and free
  std::vector<std::uint64_t> empty;                  // bases
};
Arena& arena() { return forever<Arena>(); }

std::uint64_t piece_bytes(std::uint64_t bytes) { return std::bit_ceil(std::max(bytes, kAlignment)); }
std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The caller holds the lock. Returns a slab with no piece in use; 0 if the address space is used up.
std::uint64_t empty_slab(Arena& a, const Kind& kind) {
  if (a.empty.empty()) {
    const std::uint64_t mapped = map_slab();
    if (mapped == 0) return 0;
    a.empty.push_back(mapped);
  }
  const std::uint64_t base = a.empty.back();
  a.empty.pop_back();
  Slab& slab = a.slabs[base];
  if (slab.size != kind.second) {
    slab.free.clear();
    for (std::uint64_t at = kSlabBytes; at > 0; at -= kind.second)
      slab.free.push_back(static_cast<std::uint32_t>(at - kind.second));
  }
  slab.owner = kind.first;
  slab.size = kind.second;
  return base;
}

std::uint64_t take_small(const Kind& kind, std::uint64_t bytes, std::uint64_t slab_bytes,
                         const std::function<bool(std::uint64_t)>& reserve) {
  Arena& a = arena();
  const std::lock_guard guard(a.lock);
  std::vector<std::uint64_t>& roomy = a.roomy[kind];
  const bool fresh = roomy.empty();
  if (!reserve(slab_bytes == 0 ? bytes : fresh ? slab_bytes : 0)) return 0;
  if (fresh) {
    const std::uint64_t slab = empty_slab(a, kind);
    if (slab == 0) return 0;
    roomy.push_back(slab);
  }
  const std::uint64_t base = roomy.back();
  Slab& slab = a.slabs[base];
  const std::uint64_t address = base + slab.free.back();
  slab.free.pop_back();
  ++slab.pieces;
  if (slab.free.empty()) roomy.pop_back();
  return address;
}

}  // namespace

std::uint64_t arena_take(const void* owner, std::uint64_t bytes, std::uint64_t slab_bytes,
                         const std::function<bool(std::uint64_t)>& reserve) {
  if (bytes <= kLargestSmall) return take_small({owner, piece_bytes(bytes)}, bytes, slab_bytes, reserve);
  if (bytes > ~0ull - kSlabBytes) return 0;
  if (!reserve(slab_bytes == 0 ? bytes : rounded(bytes, slab_bytes))) return 0;
  return map(rounded(bytes, kArenaPage));
}

std::uint64_t arena_give(std::uint64_t address, std::uint64_t bytes, std::uint64_t slab_bytes) {
  if (bytes > kLargestSmall) {
    ::munmap(reinterpret_cast<void*>(address), rounded(bytes, kArenaPage));
    return slab_bytes == 0 ? bytes : rounded(bytes, slab_bytes);
  }
  Arena& a = arena();
  const std::lock_guard guard(a.lock);
  const std::uint64_t base = address / kSlabBytes * kSlabBytes;
  Slab& slab = a.slabs[base];
  std::vector<std::uint64_t>& roomy = a.roomy[{slab.owner, slab.size}];
  if (slab.free.empty()) roomy.push_back(base);
  slab.free.push_back(static_cast<std::uint32_t>(address - base));
  const bool last = --slab.pieces == 0;
  if (last) {
    std::erase(roomy, base);
    a.empty.push_back(base);
  }
  return slab_bytes == 0 ? bytes : last ? slab_bytes : 0;
}

}  // namespace headgate::sim::driver
