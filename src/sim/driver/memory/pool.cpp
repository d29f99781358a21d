// Memory of pools: growth, reuse in stream order, release.
#include "sim/driver/memory/pool.hpp"

#include <algorithm>

#include "sim/driver/memory/arena.hpp"
#include "sim/driver/memory/physical.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

struct Pools {
  std::mutex lock;
  std::vector<MemoryPool*> pools;                     // alive, or destroyed and still holding memory
  std::vector<MemoryPool*> defaults, current, graph;  // by device
};
Pools& all_pools() { return forever<Pools>(); }
std::atomic<bool> in_use{false};

bool complete(const Mark& mark) {
  if (!mark.stream->valid() || mark.stream->id != mark.stream_id) return true;
  auto& head = library().state().streams[mark.stream->index].head;
  return std::atomic_ref(head).load(std::memory_order_acquire) >= mark.number;
}

// The legacy default stream and the blocking streams of its context wait for each other.
bool ordered_behind(const Stream* stream, const Mark& mark) {
  if (stream == mark.stream) return true;
  return stream->context == mark.stream->context && stream->kind != StreamKind::non_blocking &&
         mark.stream->kind != StreamKind::non_blocking &&
         (stream->kind == StreamKind::legacy || mark.stream->kind == StreamKind::legacy);
}

bool may_have(const MemoryPool* pool, const Stream* stream, const Piece& piece) {
  return std::ranges::all_of(piece.marks, [&](const Mark& mark) {
    return ordered_behind(stream, mark) || (pool->opportunistic != 0 && complete(mark));
  });
}

// Merges adjacent free pieces of a chunk that have no marks.
void join_free(MemoryPool* pool) {
  for (auto it = pool->pieces.begin(); it != pool->pieces.end();) {
    const auto next = std::next(it);
    if (next == pool->pieces.end()) return;
    const bool joins = !it->second.used && !next->second.used && it->second.marks.empty() &&
                       next->second.marks.empty() && it->second.chunk == next->second.chunk;
    if (!joins) {
      it = next;
      continue;
    }
    it->second.bytes += next->second.bytes;
    pool->pieces.erase(next);
  }
}

void observe(MemoryPool* pool) {
  for (auto& [base, piece] : pool->pieces) std::erase_if(piece.marks, complete);
  join_free(pool);
}

bool grow(MemoryPool* pool, std::uint64_t bytes) {
  const std::uint64_t granule = std::max<std::uint64_t>(library().profile().pool_granule_bytes, 4096);
  if (bytes > ~0ull - granule) return false;
  const std::uint64_t chunk = (bytes + granule - 1) / granule * granule;
  if (chunk > pool->most_bytes - std::min(pool->most_bytes, pool->reserved)) return false;
  if (!reserve(pool->account, chunk)) return false;
  const std::uint64_t base = arena_take(pool, chunk, 0, [](std::uint64_t) { return true; });
  if (base == 0) return Node::Locked(*library().node)->release(pool->account, chunk), false;
  pool->chunks[base] = chunk;
  pool->pieces[base] = {.bytes = chunk, .chunk = base, .used = false, .marks = {}};
  pool->reserved += chunk;
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  return true;
}

void bury_if_done(MemoryPool* pool) {
  if (!pool->destroyed || pool->reserved != 0) return;
  std::erase(all_pools().pools, pool);
  recycled<MemoryPool>().give(pool);
}

bool give_way(int device) {
  bool gave = false;
  const std::vector<MemoryPool*> pools = all_pools().pools;
  for (MemoryPool* pool : pools) {
    if (pool->device != device) continue;
    const std::uint64_t before = pool->reserved;
    observe(pool);
    pool_trim(pool, 0);
    gave |= pool->reserved != before;
    bury_if_done(pool);
  }
  return gave;
}

MemoryPool* made_once(std::vector<MemoryPool*>& by_device, int device) {
  by_device.resize(library().visible.size());
  MemoryPool*& pool = by_device[static_cast<std::size_t>(device)];
  if (pool == nullptr) pool = make_pool(device);
  return pool;
}

}  // namespace

std::unique_lock<std::mutex> lock_pools() { return std::unique_lock(all_pools().lock); }

MemoryPool* pool_of(CUmemoryPool handle) { return object<MemoryPool>(handle); }

MemoryPool* default_pool(int device) { return made_once(all_pools().defaults, device); }

MemoryPool* current_pool(int device) {
  all_pools().current.resize(library().visible.size());
  MemoryPool* pool = all_pools().current[static_cast<std::size_t>(device)];
  return pool != nullptr ? pool : default_pool(device);
}

MemoryPool* graph_pool(int device) {
  MemoryPool* pool = made_once(all_pools().graph, device);
  if (pool == nullptr) return nullptr;
  pool->retire();  // no handle refers to it
  pool->release_threshold = std::numeric_limits<std::uint64_t>::max();
  return pool;
}

void set_current_pool(int device, MemoryPool* pool) {
  all_pools().current.resize(library().visible.size());
  all_pools().current[static_cast<std::size_t>(device)] = pool;
}

MemoryPool* make_pool(int device) {
  std::uint32_t account = kNone;
  if (account_on(library().visible[static_cast<std::size_t>(device)], &account) != CUDA_SUCCESS) return nullptr;
  MemoryPool* pool = recycled<MemoryPool>().take();
  pool->device = device;
  pool->account = account;
  pool->destroyed = false;
  pool->most_bytes = std::numeric_limits<std::uint64_t>::max();
  pool->release_threshold = 0;
  pool->follow_events = pool->opportunistic = pool->internal_dependencies = 1;
  pool->reserved = pool->reserved_high = pool->used = pool->used_high = 0;
  pool->access.assign(library().visible.size(), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  pool->access[static_cast<std::size_t>(device)] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  pool->publish();
  all_pools().pools.push_back(pool);
  in_use.store(true, std::memory_order_release);
  return pool;
}

void destroy_pool(MemoryPool* pool) {
  pool->retire();
  pool->destroyed = true;
  pool->release_threshold = 0;  // no more allocations come from it
  std::ranges::replace(all_pools().current, pool, nullptr);
  if (pool->used == 0) pool_trim(pool, 0);
  bury_if_done(pool);
}

CUresult pool_allocate(MemoryPool* pool, Stream* stream, std::uint64_t bytes, std::uint64_t* address) {
  if (bytes > ~0ull - kAlignment) return CUDA_ERROR_OUT_OF_MEMORY;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (pool->opportunistic != 0) library().node->advance();
  const auto fitting = [&] {
    auto best = pool->pieces.end();
    for (auto it = pool->pieces.begin(); it != pool->pieces.end(); ++it) {
      const Piece& piece = it->second;
      if (piece.used || piece.bytes < bytes || !may_have(pool, stream, piece)) continue;
      if (best == pool->pieces.end() || piece.bytes < best->second.bytes) best = it;
    }
    return best;
  };
  auto found = fitting();
  if (found == pool->pieces.end()) {
    // If the card is full, unused memory of this pool and of the process's other pools makes room.
    if (!grow(pool, bytes) && (!give_way(pool->device) || !grow(pool, bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
    found = fitting();
  }
  Piece& piece = found->second;
  if (piece.bytes > bytes) {
    Piece rest = piece;
    rest.bytes -= bytes;
    pool->pieces[found->first + bytes] = rest;
    piece.bytes = bytes;
  }
  piece.used = true;
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  return give(address, found->first);
}

void pool_free(MemoryPool* pool, std::uint64_t address, const Marks* marks) {
  Piece& piece = pool->pieces.at(address);
  piece.used = false;
  pool->used -= piece.bytes;
  if (marks != nullptr) piece.marks = *marks;
  if (piece.marks.empty()) join_free(pool);
  if (!pool->destroyed || pool->used != 0) return;
  pool_trim(pool, 0);
  bury_if_done(pool);
}

void pool_trim(MemoryPool* pool, std::uint64_t keep) {
  if (payloads_pending()) return;  // finished copies may still have bytes to move there
  join_free(pool);
  for (auto it = pool->chunks.begin(); it != pool->chunks.end() && pool->reserved > keep;) {
    const auto [base, bytes] = *it;
    const auto piece = pool->pieces.find(base);
    const bool unused = !piece->second.used && piece->second.bytes == bytes && piece->second.marks.empty();
    if (!unused || pool->reserved - bytes < keep) {
      ++it;
      continue;
    }
    Node::Locked(*library().node)->release(pool->account, bytes);
    (void)arena_give(base, bytes, 0);
    pool->reserved -= bytes;
    pool->pieces.erase(piece);
    it = pool->chunks.erase(it);
  }
}

Marks marks_of(Stream* stream) {
  Marks marks;
  const auto add = [&](Stream* one) {
    if (const std::uint64_t number = pushed_to(one); number != 0) marks.push_back({one, one->id, number});
  };
  if (stream->kind == StreamKind::non_blocking) {
    add(stream);
    return marks;
  }
  const std::lock_guard guard(stream->context->lock);
  for (Stream* one : stream->context->streams) {
    const bool waits = one == stream || (one->kind != StreamKind::non_blocking &&
                                         (stream->kind == StreamKind::legacy || one->kind == StreamKind::legacy));
    if (waits) add(one);
  }
  return marks;
}

void pools_synchronised() {
  if (!in_use.load(std::memory_order_acquire)) return;
  const auto guard = lock_pools();
  const std::vector<MemoryPool*> pools = all_pools().pools;
  for (MemoryPool* pool : pools) {
    observe(pool);
    if (pool->reserved > pool->release_threshold) pool_trim(pool, pool->release_threshold);
    bury_if_done(pool);
  }
}

bool pools_give_way(int device) {
  if (!in_use.load(std::memory_order_acquire)) return false;
  const auto guard = lock_pools();
  return give_way(device);
}

void free_pool_memory(const Allocation& allocation) {
  const auto guard = lock_pools();
  pool_free(allocation.pool, allocation.base, nullptr);
}

}  // namespace headgate::sim::driver
