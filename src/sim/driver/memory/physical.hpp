// Physical memory by itself, apart from where it is mapped: what cuMemCreate makes, what another process exported.
//
// One mapping of all of it is its home; further ones are mirrors of that. No descriptor is kept: the mappings hold the
// file of shared memory open. Forked children get none of it.
#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint64_t kGranularity = 2 << 20;  // of cuMemCreate and cuMemMap

struct Physical {
  std::uint64_t bytes = 0;
  std::uint64_t home = 0;  // address in this process
  std::uint32_t node_device = 0;
  std::uint32_t account = kNone;  // that pays; kNone: somebody else made it
  std::uint32_t shared = kNone;   // its place in the node, where others may hold it
  std::uint32_t generation = 0;   // of that place
  unsigned handle_types = 0;      // as asked at its creation
  unsigned char flags[8] = {};    // CUmemAllocationProp's allocFlags
  std::uint64_t references = 0;   // handles
  std::uint64_t mappings = 0;
};

// All under one lock, which the caller takes.
std::mutex& physical_lock();

// With one reference. OUT_OF_MEMORY; INVALID_DEVICE.
CUresult create_physical(CUdevice device, std::uint64_t bytes, unsigned handle_types, std::uint64_t* handle);
// Memory that exists already, by its place in the node; one more reference where this process has it.
CUresult import_physical(std::uint32_t shared, std::uint64_t* handle);
// Null: unknown.
[[nodiscard]] Physical* find_physical(std::uint64_t handle);
// After a reference or a mapping went: frees it if that was the last.
void drop_if_unused(std::uint64_t handle);

// The account of this process on a device; made at the first use.
CUresult account_on(std::uint32_t node_device, std::uint32_t* account);
// CUDA's number of a device of the node; -1 where this process does not see it.
[[nodiscard]] int ordinal_of(std::uint32_t node_device);

// Part of the memory a second time: at that address (what was mapped there goes), or, 0, anywhere. 0: no room.
[[nodiscard]] std::uint64_t mirror(const Physical& memory, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at);

// Copies and fills that are under way have happened before addresses go.
void wait_before_unmapping();

}  // namespace headgate::sim::driver
