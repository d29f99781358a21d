// Device memory of this process: sparse private mappings whose addresses are the device addresses; the node keeps the
// sums.
#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

struct MemoryPool;

enum class MemoryType : std::uint32_t { host = 1, device = 2 };

struct Allocation {
  std::uint64_t base = 0, bytes = 0;
  Context* context = nullptr;
  MemoryType type = MemoryType::device;
  bool managed = false, registered = false, global = false;  // registered: the program's own memory
  unsigned flags = 0;
  MemoryPool* pool = nullptr;  // the memory is a pool's, and outlives the context
  bool graph = false;          // an address of a graph's allocation node, with bytes behind it or not
};

// The allocation that holds an address; false where none does. Thread-safe.
bool find_allocation(std::uint64_t address, Allocation* out);
// Pools keep their allocations in the same book.
void note_allocation(const Allocation& allocation);
// Takes a pool's allocation out, not a graph's; false where none begins there.
bool take_pool_allocation(std::uint64_t address, Allocation* out);
void forget_graph_allocation(std::uint64_t address);
// All of [address, address + bytes) lies in one allocation that the GPU can reach.
[[nodiscard]] bool is_device_address(std::uint64_t address, std::uint64_t bytes);
[[nodiscard]] bool is_pinned(std::uint64_t address, std::uint64_t bytes);

// Charged to the context's account. OUT_OF_MEMORY.
CUresult allocate_device(Context* context, std::uint64_t bytes, bool managed, bool global, std::uint64_t* address);
CUresult free_device(std::uint64_t address);
void free_memory_of(Context* context);
void free_global(std::uint64_t address);

}  // namespace headgate::sim::driver
