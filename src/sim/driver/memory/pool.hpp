// Stream-ordered memory of this process. A pool grows by whole granules, hands freed memory out again in stream order,
// and gives granules back to the card at a synchronise, a trim, or when the card has nothing else left. The node's sums
// count what a pool has reserved, used or not.
//
// Pools belong to a device and a process: they outlive contexts.
#pragma once

#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint32_t kPoolWord = 0x68706f6c;

// A place in a stream's queue that memory waits for: until the stream is past it, whoever is not ordered behind it must
// not be given the memory.
struct Mark {
  Stream* stream;
  std::uint64_t stream_id;
  std::uint64_t number;
};
using Marks = std::vector<Mark>;

struct Piece {
  std::uint64_t bytes = 0;
  std::uint64_t chunk = 0;  // base of the growth that it is cut from
  bool used = false;
  Marks marks;  // not yet seen complete by the host
};

struct MemoryPool {
  std::atomic<std::uint32_t> word{0};
  int device = 0;  // CUDA ordinal
  std::uint32_t account = kNone;
  bool destroyed = false;  // goes when nothing is outstanding
  std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t release_threshold = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;  // as told; what they do: docs/simulator.md
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::vector<unsigned> access;                   // by device: CUmemAccess_flags
  std::map<std::uint64_t, std::uint64_t> chunks;  // base -> bytes: what was reserved at once goes back at once
  std::map<std::uint64_t, Piece> pieces;          // by base; together they fill the chunks
};

// Of all pools of the process; the functions down to the next blank line need it held.
[[nodiscard]] std::unique_lock<std::mutex> lock_pools();
[[nodiscard]] MemoryPool* pool_of(CUmemoryPool handle);  // null where it is none
// Made at first use; null where the node has no account for it.
[[nodiscard]] MemoryPool* default_pool(int device);
[[nodiscard]] MemoryPool* current_pool(int device);
// Of graphs' memory nodes: reserved until cuDeviceGraphMemTrim, counted by CU_GRAPH_MEM_ATTR_*.
[[nodiscard]] MemoryPool* graph_pool(int device);
void set_current_pool(int device, MemoryPool* pool);
[[nodiscard]] MemoryPool* make_pool(int device);
void destroy_pool(MemoryPool* pool);
// For `stream`, from what it may have again or from a growth. OUT_OF_MEMORY.
CUresult pool_allocate(MemoryPool* pool, Stream* stream, std::uint64_t bytes, std::uint64_t* address);
// To be had again by whoever is ordered behind `marks`; null: as soon as what it waited for before is past.
void pool_free(MemoryPool* pool, std::uint64_t address, const Marks* marks);
// Gives unused chunks back until at most `keep` bytes are reserved. Sees only frees whose completion the host has seen.
void pool_trim(MemoryPool* pool, std::uint64_t keep);

// What a free in this stream waits for: all that is queued there now, and on the streams that it waits for.
[[nodiscard]] Marks marks_of(Stream* stream);

// After the host has waited for something: pools see what is complete and release down to their thresholds. One load
// where no pool was ever used.
void pools_synchronised();
// Everything unused on a device goes back to the card, so that another request may have it. True where something went.
bool pools_give_way(int device);
// cuMemFree of pool memory: no wait.
void free_pool_memory(const Allocation& allocation);

}  // namespace headgate::sim::driver
