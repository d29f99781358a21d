// Physical memory from cuMemCreate. It is freed when the last handle reference is released and the last mapping is
// gone, in either order (cuda.h, cuMemRelease).
#pragma once

#include <cstdint>

#include "guest/limiter/memory/allocation_table.hpp"

namespace headgate::limiter {

// What was freed with the last reference. If exported, it may exist elsewhere.
struct Released {
  std::uint64_t bytes = 0;
  std::uint32_t device_index = 0;
  bool exported = false;
};

// Adds a physical object with one handle reference, already charged.
void mapped_created(std::uint64_t handle, Allocation holding);

// Adds a reference to the object mapped at `address` (or named by the handle); does nothing if it is unknown.
void mapped_retained(std::uint64_t handle, std::uint64_t address);

// Records the mapping's size even for a foreign handle (an import), so that unmapping a range steps over it.
void mapped_at(std::uint64_t address, std::uint64_t size, std::uint64_t handle);

// Call before the export. Returns true the first time, with what the object holds.
bool mapped_export(std::uint64_t handle, Released& object);
// Call if the driver's export failed.
void mapped_not_exported(std::uint64_t handle);

// For use around the driver's release of a handle. The reference is removed first, because another thread may get the
// same handle as soon as the driver has it back. settle() returns what to give back (0 bytes: nothing), or undoes the
// removal after a failure.
class HandleRelease {
 public:
  explicit HandleRelease(std::uint64_t handle);
  Released settle(bool succeeded);

 private:
  std::uint64_t handle_;
  std::uint32_t object_;
  bool known_ = false;
};

// Call after the driver unmapped. Returns what to give back.
Released mapped_unmapped(std::uint64_t address);
// Returns the size of the mapping that starts there; 0 if we know none.
std::uint64_t mapped_size(std::uint64_t address);

void mapped_reset_after_fork();

}  // namespace headgate::limiter
