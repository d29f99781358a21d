#include "sim/driver/memory/physical.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <map>

#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

struct Handles {
  std::mutex lock;
  std::map<std::uint64_t, Physical> by_handle;
  std::uint64_t next_handle = 0x100;
};
Handles& handles() { return forever<Handles>(); }

// Shared, because only shared mappings can be mirrored. fd -1: memory of this process only.
std::uint64_t map_home(int fd, std::uint64_t bytes) {
  const int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return 0;
  ::madvise(at, bytes, MADV_DONTFORK);
  return reinterpret_cast<std::uint64_t>(at);
}

std::uint64_t keep(const Physical& memory) {
  const std::uint64_t handle = handles().next_handle += 0x10;
  handles().by_handle[handle] = memory;
  return handle;
}

}  // namespace

std::mutex& physical_lock() { return handles().lock; }

bool reserve(std::uint32_t account, std::uint64_t bytes) {
  Node& node = *library().node;
  if (Node::Locked(node)->reserve(account, bytes)) return true;
  node.reap();
  return Node::Locked(node)->reserve(account, bytes);
}

int ordinal_of(std::uint32_t node_device) {
  const auto& visible = library().visible;
  for (std::size_t d = 0; d < visible.size(); ++d) {
    if (visible[d] == node_device) return static_cast<int>(d);
  }
  return -1;
}

CUresult account_on(std::uint32_t node_device, std::uint32_t* account) {
  Node& node = *library().node;
  Node::Locked locked(node);
  const std::uint32_t place = locked->next_account_slot(node.process(), node_device);
  if (place == kNone || !node.back_account(place)) return CUDA_ERROR_OUT_OF_MEMORY;
  *account = locked->account(node.process(), node_device);
  return *account == kNone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult create_physical(CUdevice device, std::uint64_t bytes, unsigned handle_types, std::uint64_t* handle) {
  Library& lib = library();
  if (device < 0 || static_cast<std::size_t>(device) >= lib.visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  Physical memory;
  memory.bytes = bytes;
  memory.node_device = lib.visible[device];
  memory.handle_types = handle_types;
  memory.references = 1;
  SIM_TRY(account_on(memory.node_device, &memory.account));
  count(lib.state().counters[memory.account].allocations);
  if (!reserve(memory.account, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Node::Locked locked(*lib.node);
  UniqueFd file;
  if (handle_types != 0) {
    file = lib.node->create_shared(locked.engine(), memory.account, bytes, bytes, &memory.shared);
    if (file) memory.generation = lib.state().shared[memory.shared].generation;
  }
  if (handle_types == 0 || file) memory.home = map_home(file.get(), bytes);
  if (memory.home == 0) {
    file.reset();
    if (memory.shared != kNone) lib.node->settle_shared(locked.engine(), memory.shared);
    else locked->release(memory.account, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return give(handle, keep(memory));
}

CUresult import_physical(std::uint32_t shared, std::uint64_t* handle) {
  Library& lib = library();
  Node::Locked locked(*lib.node);
  const SharedMemory& there = lib.state().shared[shared];
  for (auto& [known, memory] : handles().by_handle) {
    if (memory.shared != shared || memory.generation != there.generation) continue;
    ++memory.references;
    return give(handle, known);
  }
  if (!there.used) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal_of(there.device) < 0) return CUDA_ERROR_NOT_SUPPORTED;
  Physical memory;
  memory.node_device = there.device;
  memory.shared = shared;
  memory.generation = there.generation;
  memory.handle_types = 1;
  memory.references = 1;
  const UniqueFd file = lib.node->open_shared(shared);
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  memory.bytes = static_cast<std::uint64_t>(status.st_size);
  memory.home = map_home(file.get(), memory.bytes);
  if (memory.home == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  return give(handle, keep(memory));
}

Physical* find_physical(std::uint64_t handle) {
  const auto found = handles().by_handle.find(handle);
  return found == handles().by_handle.end() ? nullptr : &found->second;
}

void drop_if_unused(std::uint64_t handle) {
  const auto found = handles().by_handle.find(handle);
  if (found == handles().by_handle.end() || found->second.references != 0 || found->second.mappings != 0) return;
  const Physical memory = found->second;
  handles().by_handle.erase(found);
  ::munmap(reinterpret_cast<void*>(memory.home), memory.bytes);
  Node::Locked locked(*library().node);
  if (memory.shared == kNone) {
    locked->release(memory.account, memory.bytes);
    return;
  }
  // The creator's entry ends with its last reference. The bytes stay taken while another process has one.
  if (memory.account != kNone) locked->disown_shared(memory.shared);
  if (library().state().shared[memory.shared].account == kNone)
    library().node->settle_shared(locked.engine(), memory.shared);
}

std::uint64_t mirror(const Physical& memory, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
  const int flags = MREMAP_MAYMOVE | (at != 0 ? MREMAP_FIXED : 0);
  // With an old size of 0, mremap keeps the old mapping and adds another of the same memory.
  void* made = ::mremap(reinterpret_cast<void*>(memory.home + offset), 0, bytes, flags, reinterpret_cast<void*>(at));
  if (made == MAP_FAILED) return 0;
  ::madvise(made, bytes, MADV_DONTFORK);
  return reinterpret_cast<std::uint64_t>(made);
}

void wait_before_unmapping() {
  if (!payloads_pending()) return;
  Library& lib = library();
  const std::lock_guard guard(lib.contexts_lock);
  for (Context* context : lib.contexts) wait_context(context);
}

}  // namespace headgate::sim::driver
