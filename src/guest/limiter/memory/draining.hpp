// Memory of this process that others may have: marked while it is exported, and charged after this process has let go
// of it until NVML shows that it is gone.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/memory/mapped.hpp"

namespace headgate::limiter {

// Around an export: before the driver call; after one that failed.
void note_exported(std::uint32_t device_index, std::uint64_t bytes);
void note_not_exported(std::uint32_t device_index, std::uint64_t bytes);

// This process holds memory of others.
void note_import();

// After the driver has freed: gives the bytes back, at once or, exported, when they are seen to be gone.
void let_go(const Released& object);

// Allocations by pointer that were exported by an IPC handle. Takes one out: was it?
extern AllocationTable ipc_exports;
void put_ipc_export(std::uint64_t address, const Allocation& holding);
bool take_ipc_export(std::uint64_t address);

// Reaps this share's dead. What they held drains, where NVML may show it gone; the time-out's part is said once a
// minute.
std::uint32_t reap_the_dead();

// The same for views, which programs ask again and again. Looks once a clock tick (1 to 4 ms) whether a process of
// our pid namespace has no number any more, and each kDeadEachNs for all others, such as those that nobody has waited
// for.
inline constexpr std::int64_t kDeadEachNs = 25'000'000;
void look_for_the_dead();

// Where anything drains: asks NVML and gives back what is gone. Rare calls only. True: some was given back.
bool settle_draining(std::uint32_t device_index);
// The same for views: once a clock tick.
void settle_draining_in_time(std::uint32_t device_index);

// The part of this process's ledger that NVML does not list under it any more.
std::uint64_t own_draining(std::uint32_t device_index);

// What processes of this share, the dead included, have exported there.
std::uint64_t exported_by_share(std::uint32_t device_index);

void draining_reset_after_fork();

}  // namespace headgate::limiter
