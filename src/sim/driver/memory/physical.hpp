// Physical memory, independent of where it is mapped: created by cuMemCreate or exported by another process.
//
// One mapping of all of it is its home; others are mirrors of the home. No descriptor is kept, because the mappings
// keep the shared file open. Forked children inherit none of them.
#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint64_t kGranularity = 2 << 20;  // of cuMemCreate and cuMemMap

struct Physical {
  std::uint64_t bytes = 0;
  std::uint64_t home = 0;  // address in this process
  std::uint32_t node_device = 0;
  std::uint32_t account = kNone;  // account charged; kNone: another process created it
  std::uint32_t shared = kNone;   // its slot in the node if others may hold it
  std::uint32_t generation = 0;   // of that slot
  unsigned handle_types = 0;      // as requested at creation
  unsigned char flags[8] = {};    // CUmemAllocationProp's allocFlags
  std::uint64_t references = 0;   // handles
  std::uint64_t mappings = 0;
};

// One lock for everything below. The caller takes it.
std::mutex& physical_lock();

// Creates memory with one reference. OUT_OF_MEMORY; INVALID_DEVICE.
CUresult create_physical(CUdevice device, std::uint64_t bytes, unsigned handle_types, std::uint64_t* handle);
// Opens existing memory by its slot in the node; adds a reference if this process has it already.
CUresult import_physical(std::uint32_t shared, std::uint64_t* handle);
// Returns null if the handle is unknown.
[[nodiscard]] Physical* find_physical(std::uint64_t handle);
// Called after a reference or a mapping was removed: frees the memory if that was the last.
void drop_if_unused(std::uint64_t handle);

// Charges an account. If the card is full, looks for dead processes that still hold memory first.
[[nodiscard]] bool reserve(std::uint32_t account, std::uint64_t bytes);
// Returns this process's account on a device; creates it at first use.
CUresult account_on(std::uint32_t node_device, std::uint32_t* account);
// Returns the CUDA ordinal of a device of the node; -1 if it is not visible to this process.
[[nodiscard]] int ordinal_of(std::uint32_t node_device);

// Maps part of the memory again, at `at` (replacing what is there) or, if 0, anywhere. Returns 0 if there is no room.
[[nodiscard]] std::uint64_t mirror(const Physical& memory, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at);

// Waits for copies and fills that are under way, before their addresses are unmapped.
void wait_before_unmapping();

}  // namespace headgate::sim::driver
