#include "guest/limiter/memory/mapped.hpp"

#include <sys/mman.h>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/short_lock.hpp"
#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

struct Object {
  std::uint64_t bytes;
  std::uint32_t device_index;
  std::uint32_t references;  // handles
  std::uint32_t mappings;    // and releases in progress
  std::uint32_t next_free;   // index + 1 of the next free object
  bool exported;             // perhaps to another process
};

// Per process; NCCL and PyTorch's expandable segments make some thousands. Objects beyond it stay charged.
constexpr std::uint32_t kMaxObjects = 1 << 18;

Object* objects;
std::uint32_t object_count;
std::uint32_t first_free;  // index + 1
constinit bare::ShortLock lock;

constinit AllocationTable objects_by_handle;   // bytes: the object's index
constinit AllocationTable objects_by_address;  // the same
constinit AllocationTable sizes_by_address;    // bytes: of the mapping

bool have_room() {
  if (objects != nullptr) return first_free != 0 || object_count < kMaxObjects;
  const bare::KeepErrno keep_errno;
  void* memory = ::mmap(nullptr, kMaxObjects * sizeof(Object), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  objects = static_cast<Object*>(memory);
  return true;
}

std::uint32_t new_object() {
  if (first_free == 0) return object_count++;
  const std::uint32_t index = first_free - 1;
  first_free = objects[index].next_free;
  return index;
}

// Call under the lock. Returns what the object held if nothing refers to it any more.
Released let_go_if_unused(std::uint32_t index) {
  Object& object = objects[index];
  if (object.references != 0 || object.mappings != 0) return {};
  object.next_free = first_free;
  first_free = index + 1;
  return {object.bytes, object.device_index, object.exported};
}

}  // namespace

void mapped_created(std::uint64_t handle, Allocation holding) {
  note_peaks(holding.device_index);
  const bare::Locked locked(lock);
  if (!have_room()) return;
  const std::uint32_t index = new_object();
  objects[index] = {holding.bytes, holding.device_index, 1, 0, 0, false};
  objects_by_handle.put(handle, {index, 0});
}

void mapped_retained(std::uint64_t handle, std::uint64_t address) {
  const bare::Locked locked(lock);
  Allocation found;
  if (!objects_by_address.look(address, found) && !objects_by_handle.look(handle, found)) return;
  ++objects[found.bytes].references;
  objects_by_handle.put(handle, found);
}

void mapped_at(std::uint64_t address, std::uint64_t size, std::uint64_t handle) {
  const bare::Locked locked(lock);
  sizes_by_address.put(address, {size, 0});
  Allocation found;
  if (!objects_by_handle.look(handle, found)) return;
  ++objects[found.bytes].mappings;
  objects_by_address.put(address, found);
}

bool mapped_export(std::uint64_t handle, Released& object) {
  const bare::Locked locked(lock);
  Allocation found;
  if (!objects_by_handle.look(handle, found) || objects[found.bytes].exported) return false;
  Object& known = objects[found.bytes];
  known.exported = true;
  object = {known.bytes, known.device_index, true};
  return true;
}

void mapped_not_exported(std::uint64_t handle) {
  const bare::Locked locked(lock);
  Allocation found;
  if (objects_by_handle.look(handle, found)) objects[found.bytes].exported = false;
}

HandleRelease::HandleRelease(std::uint64_t handle) : handle_(handle), object_(0) {
  const bare::Locked locked(lock);
  Allocation found;
  if (!objects_by_handle.look(handle, found)) return;
  object_ = static_cast<std::uint32_t>(found.bytes);
  known_ = true;
  Object& object = objects[object_];
  ++object.mappings;  // keeps the object until it is settled
  if (--object.references == 0) objects_by_handle.take(handle, found);
}

Released HandleRelease::settle(bool succeeded) {
  if (!known_) return {};
  const bare::Locked locked(lock);
  Object& object = objects[object_];
  --object.mappings;
  if (succeeded) return let_go_if_unused(object_);
  ++object.references;
  objects_by_handle.put(handle_, {object_, 0});
  return {};
}

Released mapped_unmapped(std::uint64_t address) {
  const bare::Locked locked(lock);
  Allocation found, size;
  sizes_by_address.take(address, size);
  if (!objects_by_address.take(address, found)) return {};
  const auto index = static_cast<std::uint32_t>(found.bytes);
  if (objects[index].mappings != 0) --objects[index].mappings;
  return let_go_if_unused(index);
}

std::uint64_t mapped_size(std::uint64_t address) {
  Allocation size;
  return sizes_by_address.look(address, size) ? size.bytes : 0;
}

void mapped_reset_after_fork() {
  lock.reset();
  objects = nullptr;
  object_count = 0;
  first_free = 0;
  objects_by_handle.forget_after_fork();
  objects_by_address.forget_after_fork();
  sizes_by_address.forget_after_fork();
}

}  // namespace headgate::limiter
