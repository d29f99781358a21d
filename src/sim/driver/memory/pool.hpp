// Stream-ordered memory of this process. A pool grows by whole granules and reuses freed memory in stream order. It
// returns granules to the card at a synchronise, at a trim, or if the card is full. The node counts what a pool has
// reserved, used or not.
//
// Pools belong to a device and a process, so they outlive contexts.
#pragma once

#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {

// A position in a stream's queue that freed memory waits for. Until the stream has passed it, only streams ordered
// behind it may reuse the memory.
struct Mark {
  Stream* stream;
  std::uint64_t stream_id;
  std::uint64_t number;
};
using Marks = std::vector<Mark>;

struct Piece {
  std::uint64_t bytes = 0;
  std::uint64_t chunk = 0;  // base of the chunk that it is cut from
  bool used = false;
  Marks marks;  // their completion has not been seen by the host
};

struct MemoryPool : Handled<0x68706f6c, CUDA_ERROR_INVALID_VALUE> {
  int device = 0;  // CUDA ordinal
  std::uint32_t account = kNone;
  bool destroyed = false;  // freed when nothing is outstanding
  std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t release_threshold = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;  // as set by the program; see docs/simulator.md
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::vector<unsigned> access;                   // by device: CUmemAccess_flags
  std::map<std::uint64_t, std::uint64_t> chunks;  // base -> bytes: reserved and returned as a whole
  std::map<std::uint64_t, Piece> pieces;          // by base; together they cover the chunks
};

// Locks all pools of the process. The functions up to the next blank line need the lock.
[[nodiscard]] std::unique_lock<std::mutex> lock_pools();
[[nodiscard]] MemoryPool* pool_of(CUmemoryPool handle);  // null if invalid
// Created at first use; null if the node has no free account.
[[nodiscard]] MemoryPool* default_pool(int device);
[[nodiscard]] MemoryPool* current_pool(int device);
// Pool of graphs' memory nodes: reserved until cuDeviceGraphMemTrim, counted by CU_GRAPH_MEM_ATTR_*.
[[nodiscard]] MemoryPool* graph_pool(int device);
void set_current_pool(int device, MemoryPool* pool);
[[nodiscard]] MemoryPool* make_pool(int device);
void destroy_pool(MemoryPool* pool);
// Allocates for `stream` from memory that it may reuse, or from a growth. OUT_OF_MEMORY.
CUresult pool_allocate(MemoryPool* pool, Stream* stream, std::uint64_t bytes, std::uint64_t* address);
// Frees for streams ordered behind `marks`. If null, for any stream once the piece's earlier marks are passed.
void pool_free(MemoryPool* pool, std::uint64_t address, const Marks* marks);
// Returns unused chunks until at most `keep` bytes are reserved. Uses only frees that the host has seen complete.
void pool_trim(MemoryPool* pool, std::uint64_t keep);

// Returns what a free in this stream waits for: all work queued there now, and on the streams that it waits for.
[[nodiscard]] Marks marks_of(Stream* stream);

// Called after the host has waited: finds completed frees and releases memory down to the thresholds. Costs one load if
// no pool was ever used.
void pools_synchronised();
// Returns everything unused on a device to the card, for another request. True if something was returned.
bool pools_give_way(int device);
// cuMemFree of pool memory. Does not wait.
void free_pool_memory(const Allocation& allocation);

}  // namespace headgate::sim::driver
