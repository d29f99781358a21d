// Memory of this process that other processes may have. It is marked while exported, and after this process frees it,
// it stays charged until NVML shows that it is gone.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/memory/mapped.hpp"

namespace headgate::limiter {

// Call before the driver's export, and after a failed one.
void note_exported(std::uint32_t device_index, std::uint64_t bytes);
void note_not_exported(std::uint32_t device_index, std::uint64_t bytes);

// Call when this process holds memory of other processes.
void note_import();

// Call after the driver freed: gives the bytes back at once or, if exported, when they are seen to be gone.
void let_go(const Released& object);

// Allocations by pointer that were exported by IPC handle. take_ipc_export() returns whether it was one.
extern AllocationTable ipc_exports;
void put_ipc_export(std::uint64_t address, const Allocation& holding);
bool take_ipc_export(std::uint64_t address);

// Reaps the share's dead processes. Their memory drains if NVML can show it gone; what a timeout gives back is logged
// once a minute.
std::uint32_t reap_the_dead();

// The same for views, which programs query often. Once per clock tick (1 to 4 ms) checks whether a process of our pid
// namespace is gone, and every kDeadEachNs all others, such as zombies.
inline constexpr std::int64_t kDeadEachNs = 25'000'000;
void look_for_the_dead();

// If anything drains, reads NVML and gives back what is gone. For rare calls. Returns whether some was given back.
bool settle_draining(std::uint32_t device_index);
// The same for views: once per clock tick.
void settle_draining_in_time(std::uint32_t device_index);

// Returns the part of this process's ledger bytes that NVML no longer lists for it.
std::uint64_t own_draining(std::uint32_t device_index);

// Returns what processes of this share, dead ones included, have exported there.
std::uint64_t exported_by_share(std::uint32_t device_index);

void draining_reset_after_fork();

}  // namespace headgate::limiter
