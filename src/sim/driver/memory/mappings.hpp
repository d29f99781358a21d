// Device addresses that come from physical memory: reserved ranges and what is mapped into them, opened IPC memory,
// mapped external memory. Addresses of cuMemAlloc and its kin are memory.hpp's.
#pragma once

#include "sim/driver/memory/memory.hpp"
#include "sim/driver/memory/physical.hpp"

namespace headgate::sim::driver {

enum class MappingKind : std::uint32_t { reserved, ipc, external };

struct Mapping {
  std::uint64_t base = 0, bytes = 0;
  std::uint64_t handle = 0;  // of the physical memory
  MappingKind kind = MappingKind::reserved;
  Context* context = nullptr;  // ipc, external: goes with it
  std::uint64_t opens = 1;     // ipc
  std::uint64_t offset = 0;    // external: of what was asked for, from base
  std::uint64_t from = 0;      // where in the memory it begins
  std::uint64_t readers = 0;   // devices that may read: bits by the node's number
  std::uint64_t writers = 0;
};

// The caller holds physical_lock().
void put_mapping(const Mapping& mapping);
[[nodiscard]] Mapping* find_mapping(std::uint64_t address);  // that holds it; null: none
[[nodiscard]] bool any_mapping_in(std::uint64_t address, std::uint64_t bytes);
// All of a range, as whole mappings without a gap; else false.
[[nodiscard]] bool whole_mappings(std::uint64_t address, std::uint64_t bytes, std::vector<Mapping*>* out);
// Takes it off the books and lets go of its memory. What lies at the addresses afterwards is the caller's business.
void take_mapping(std::uint64_t base);
// The same, its addresses too; for mappings outside reserved ranges.
void unmap_whole(const Mapping& mapping);
// An IPC opening of that memory by that context; null: none.
[[nodiscard]] Mapping* find_opened(std::uint64_t handle, const Context* context);

// These take the lock. For memory.cpp: what it does not know itself.
bool find_mapped(std::uint64_t address, Allocation* out);
[[nodiscard]] bool is_mapped_address(std::uint64_t address, std::uint64_t bytes);
// Whether a copy that begins in `found` may go on for so many bytes.
[[nodiscard]] bool reaches(const Allocation& found, std::uint64_t address, std::uint64_t bytes);
CUresult mapped_attribute(void* data, CUpointer_attribute which, std::uint64_t address);
CUresult free_external(std::uint64_t address);
void forget_mappings_of(const Context* context);
// The key of a flag at an address that several processes may have; 0: nobody else has it. The second is ipc.cpp's part,
// under the lock.
[[nodiscard]] std::uint64_t shared_key(std::uint64_t address);
[[nodiscard]] std::uint64_t exported_key(std::uint64_t address);
// ipc.cpp: whether the bytes of an allocation that others may have opened are dealt with.
bool give_back_exported(const Allocation& allocation);

}  // namespace headgate::sim::driver
