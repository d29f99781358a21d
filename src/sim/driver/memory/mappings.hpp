// Device addresses backed by physical memory: reserved ranges and their mappings, opened IPC memory, mapped external
// memory. memory.hpp handles addresses from cuMemAlloc and related calls.
#pragma once

#include "sim/driver/memory/memory.hpp"
#include "sim/driver/memory/physical.hpp"

namespace headgate::sim::driver {

enum class MappingKind : std::uint32_t { reserved, ipc, external };

struct Mapping {
  std::uint64_t base = 0, bytes = 0;
  std::uint64_t handle = 0;  // of the physical memory
  MappingKind kind = MappingKind::reserved;
  Context* context = nullptr;  // ipc, external: unmapped with it
  std::uint64_t opens = 1;     // ipc
  std::uint64_t offset = 0;    // external: of what was asked for, from base
  std::uint64_t from = 0;      // offset in the physical memory
  std::uint64_t readers = 0;   // devices that may read, as bits by their number in the node
  std::uint64_t writers = 0;
};

// The caller holds physical_lock().
void put_mapping(const Mapping& mapping);                    // adds a reference to its memory
[[nodiscard]] Mapping* find_mapping(std::uint64_t address);  // the mapping that contains it, or null
[[nodiscard]] bool any_mapping_in(std::uint64_t address, std::uint64_t bytes);
// Returns false unless the range consists of whole mappings without a gap.
[[nodiscard]] bool whole_mappings(std::uint64_t address, std::uint64_t bytes, std::vector<Mapping*>* out);
// Removes a mapping from the table and drops its reference to the memory. The caller decides what to map there instead.
void take_mapping(std::uint64_t base);
// The same, and unmaps its addresses; for mappings outside reserved ranges.
void unmap_whole(const Mapping& mapping);
// Returns that context's IPC mapping of that memory, or null.
[[nodiscard]] Mapping* find_opened(std::uint64_t handle, const Context* context);

// These take the lock. memory.cpp calls them for addresses that it does not know.
bool find_mapped(std::uint64_t address, Allocation* out);
[[nodiscard]] bool is_mapped_address(std::uint64_t address, std::uint64_t bytes);
// Tells if a copy that begins in `found` may continue for `bytes`.
[[nodiscard]] bool reaches(const Allocation& found, std::uint64_t address, std::uint64_t bytes);
// Returns the CUDA ordinal of the device whose memory is mapped there; -1 if it is not visible, -2 if nothing is
// mapped.
[[nodiscard]] int mapped_ordinal(std::uint64_t address);
CUresult free_external(std::uint64_t address);
void forget_mappings_of(const Context* context);
// Returns the key of a flag at an address that several processes may share; 0 if it is private. The second is ipc.cpp's
// part; its caller holds the lock.
[[nodiscard]] std::uint64_t shared_key(std::uint64_t address);
[[nodiscard]] std::uint64_t exported_key(std::uint64_t address);
// Implemented in ipc.cpp. Returns true if the bytes are charged to shared memory and not to the allocation's context.
bool give_back_exported(const Allocation& allocation);

}  // namespace headgate::sim::driver
