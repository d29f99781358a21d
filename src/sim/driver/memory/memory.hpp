// Device memory of this process: sparse private mappings, with equal addresses on host and device. The node keeps only
// totals.
#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

struct MemoryPool;

enum class MemoryType : std::uint32_t { host = 1, device = 2 };

struct Allocation {
  std::uint64_t base = 0, bytes = 0;
  Context* context = nullptr;
  MemoryType type = MemoryType::device;
  bool managed = false, registered = false, global = false;  // registered: by cuMemHostRegister
  unsigned flags = 0;
  MemoryPool* pool = nullptr;  // belongs to a pool, and outlives the context
  bool graph = false;          // address of a graph's allocation node, backed or not
};

// Finds the allocation that contains an address; false if there is none. Thread-safe.
bool find_allocation(std::uint64_t address, Allocation* out);
// Lists a pool's allocation in the same table.
void note_allocation(const Allocation& allocation);
// Removes a pool's allocation, but not a graph's; false if none begins there.
bool take_pool_allocation(std::uint64_t address, Allocation* out);
void forget_graph_allocation(std::uint64_t address);
// Returns true if [address, address + bytes) lies in one allocation that the GPU can access.
[[nodiscard]] bool is_device_address(std::uint64_t address, std::uint64_t bytes);
[[nodiscard]] bool is_pinned(std::uint64_t address, std::uint64_t bytes);

// Charges the context's account. OUT_OF_MEMORY.
CUresult allocate_device(Context* context, std::uint64_t bytes, bool managed, bool global, std::uint64_t* address);
CUresult free_device(std::uint64_t address);
void free_memory_of(Context* context);
void free_global(std::uint64_t address);

// Managed memory: the location of its pages. Kernel accesses are not visible, so a launch touches all of it. A touched
// page moves to the GPU if there is room, and stays in host memory if that is its preferred location.
void managed_made(const Allocation& allocation);
// Returns the GPUs' memory that it occupies.
void managed_gone(std::uint64_t base);

// Records that the GPU of the allocation's context touches [at, at + bytes).
void touch_managed(std::uint64_t base, std::uint64_t at, std::uint64_t bytes);
// Called when a kernel of this context starts.
void touch_all_managed(const Context* context);

// Removes a context that is being destroyed from all peers.
void forget_peers(const Context* context);

}  // namespace headgate::sim::driver
