// Physical memory made with cuMemCreate: it is given back when the last handle reference is released and the last
// mapping is gone, in whichever order (cuda.h, cuMemRelease).
#pragma once

#include <cstdint>

#include "guest/limiter/memory/allocation_table.hpp"

namespace headgate::limiter {

// What went with the last reference. Exported, it may live on elsewhere.
struct Released {
  std::uint64_t bytes = 0;
  std::uint32_t device_index = 0;
  bool exported = false;
};

// One physical object with one handle reference, charged already.
void mapped_created(std::uint64_t handle, Allocation holding);

// One more reference to the object that `address` is mapped to (or that the handle names); nothing where it is unknown.
void mapped_retained(std::uint64_t handle, std::uint64_t address);

// Notes the mapping's size also where the handle is not ours (an import), so that unmapping a range steps over it.
void mapped_at(std::uint64_t address, std::uint64_t size, std::uint64_t handle);

// Before the object is exported: true for the first time, with what it holds.
bool mapped_export(std::uint64_t handle, Released& object);
// The driver did not export it after all.
void mapped_not_exported(std::uint64_t handle);

// Around the driver's release of a handle: the reference leaves the books first, because another thread may be given
// the same handle the moment the driver has it back. settle(): what to give back (0 bytes: nothing), or undoes after
// failure.
class HandleRelease {
 public:
  explicit HandleRelease(std::uint64_t handle);
  Released settle(bool succeeded);

 private:
  std::uint64_t handle_;
  std::uint32_t object_;
  bool known_ = false;
};

// After the driver unmapped: what to give back.
Released mapped_unmapped(std::uint64_t address);
// Size of the mapping that starts there; 0 where there is none of ours.
std::uint64_t mapped_size(std::uint64_t address);

void mapped_reset_after_fork();

}  // namespace headgate::limiter
