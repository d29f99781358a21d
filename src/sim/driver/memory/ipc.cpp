// Inter-process memory handles: the first handle turns an allocation of cuMemAlloc into a file of the node, in place. A
// process that opens the handle maps the same file.
#include <sys/mman.h>
#include <unistd.h>
#include <cstring>
#include <map>

#include "sim/driver/memory/mappings.hpp"

namespace headgate::sim::driver {
namespace {

constexpr std::uint64_t kMemoryMagic = 0x6d656d2d63706968;  // "hipc-mem"
constexpr unsigned kLazyPeerAccess = 1;                     // the only flag; it is mandatory

struct MemoryHandle {
  std::uint64_t magic, seed;  // of the node
  std::uint32_t shared, generation;
  std::uint64_t offset;  // of the allocation in the file
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

// Whole pages that are now a file. Small allocations that share a page move with it. The node does not count such a
// page: its allocations stay charged as before.
struct Region {
  std::uint64_t base = 0, bytes = 0;
  std::uint32_t shared = kNone, generation = 0;
  std::uint32_t exports = 0;
  bool of_one = false;
};

struct Exports {
  std::map<std::uint64_t, Region> regions;             // by base
  std::map<std::uint64_t, std::uint64_t> allocations;  // base -> base of its region
};
// The caller holds physical_lock().
Exports& exports() { return forever<Exports>(); }

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Skips pages of zeroes: memory is sparse, so the file is too.
bool write_pages(int fd, const Region& region) {
  static constexpr std::byte zeroes[kPage] = {};
  for (std::uint64_t done = 0; done < region.bytes; done += kPage) {
    if (std::memcmp(at(region.base + done), zeroes, kPage) == 0) continue;
    if (::pwrite(fd, at(region.base + done), kPage, static_cast<off_t>(done)) != static_cast<ssize_t>(kPage))
      return false;
  }
  return true;
}

CUresult make_region(const Allocation& allocation, Region* out) {
  Region region;
  region.base = allocation.base / kPage * kPage;
  region.bytes = (allocation.base + allocation.bytes + kPage - 1) / kPage * kPage - region.base;
  region.of_one = region.base == allocation.base && allocation.bytes > kPage / 2;
  const auto next = exports().regions.upper_bound(region.base);
  if (next != exports().regions.end() && next->first < region.base + region.bytes) return CUDA_ERROR_NOT_SUPPORTED;
  Node& node = *library().node;
  Node::Locked locked(node);
  const UniqueFd file = node.create_shared(locked.engine(), allocation.context->account,
                                           region.of_one ? allocation.bytes : 0, region.bytes, &region.shared);
  if (!file) return CUDA_ERROR_OUT_OF_MEMORY;
  region.generation = node.state().shared[region.shared].generation;
  if (!write_pages(file.get(), region) || ::mmap(at(region.base), region.bytes, PROT_READ | PROT_WRITE,
                                                 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    locked->unshare(region.shared);
    return CUDA_ERROR_MAP_FAILED;
  }
  ::madvise(at(region.base), region.bytes, MADV_DONTFORK);
  exports().regions[region.base] = region;
  return give(out, region);
}

// Makes the pages private to this process again; neighbouring allocations keep their contents.
void end_region(const Region& region) {
  std::vector<std::byte> kept;
  if (!region.of_one)
    kept.assign(static_cast<std::byte*>(at(region.base)), static_cast<std::byte*>(at(region.base + region.bytes)));
  ::mmap(at(region.base), region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
  if (!kept.empty()) std::memcpy(at(region.base), kept.data(), kept.size());
  Node::Locked locked(*library().node);
  locked->disown_shared(region.shared);
  library().node->settle_shared(locked.engine(), region.shared);
}

CUresult handle_of(const Allocation& allocation, CUipcMemHandle* out) {
  Exports& all = exports();
  Region region;
  if (const auto known = all.allocations.find(allocation.base); known != all.allocations.end()) {
    region = all.regions[known->second];
  } else {
    auto there = all.regions.upper_bound(allocation.base);
    const bool inside = there != all.regions.begin() &&
                        (--there, allocation.base + allocation.bytes <= there->second.base + there->second.bytes);
    if (inside) region = there->second;
    else SIM_TRY(make_region(allocation, &region));
    ++all.regions[region.base].exports;
    all.allocations[allocation.base] = region.base;
  }
  const MemoryHandle handle{kMemoryMagic, library().profile().node_seed, region.shared, region.generation,
                            allocation.base - region.base};
  *out = {};
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

bool ours(const MemoryHandle& handle) {
  for (const auto& [base, region] : exports().regions) {
    if (region.shared == handle.shared && region.generation == handle.generation) return true;
  }
  return false;
}

CUresult open_handle(CUdeviceptr* out, const CUipcMemHandle& opaque, unsigned flags) {
  if (!out || flags != kLazyPeerAccess) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  MemoryHandle handle;
  std::memcpy(&handle, &opaque, sizeof handle);
  if (handle.magic != kMemoryMagic || handle.seed != library().profile().node_seed || handle.shared >= kMaxShared)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(physical_lock());
  if (ours(handle)) return CUDA_ERROR_INVALID_CONTEXT;
  {
    Node::Locked locked(*library().node);
    const SharedMemory& there = library().state().shared[handle.shared];
    // It was freed, or its creator is gone.
    if (!there.used || there.generation != handle.generation || there.account == kNone)
      return CUDA_ERROR_INVALID_HANDLE;
  }
  std::uint64_t physical = 0;
  SIM_TRY(import_physical(handle.shared, &physical));
  Physical* memory = find_physical(physical);
  if (Mapping* opened = find_opened(physical, context)) {
    --memory->references;
    ++opened->opens;
    return give(out, opened->base + handle.offset);
  }
  const std::uint64_t base = mirror(*memory, 0, memory->bytes, 0);
  if (base == 0) {
    --memory->references;
    drop_if_unused(physical);
    return CUDA_ERROR_MAP_FAILED;
  }
  put_mapping({.base = base,
               .bytes = memory->bytes,
               .handle = physical,
               .kind = MappingKind::ipc,
               .context = context,
               .readers = ~0ull,
               .writers = ~0ull});
  return give(out, base + handle.offset);
}

}  // namespace

std::uint64_t exported_key(std::uint64_t address) {
  auto it = exports().regions.upper_bound(address);
  if (it == exports().regions.begin()) return 0;
  --it;
  const Region& region = it->second;
  return address - region.base < region.bytes ? shared_flag_key(region.shared, address - region.base) : 0;
}

bool give_back_exported(const Allocation& allocation) {
  const std::lock_guard guard(physical_lock());
  Exports& all = exports();
  const auto found = all.allocations.find(allocation.base);
  if (found == all.allocations.end()) return false;
  Region& region = all.regions[found->second];
  const bool paid = region.of_one;
  all.allocations.erase(found);
  if (--region.exports == 0) {
    end_region(region);
    all.regions.erase(region.base);
  }
  return paid;
}

SIM_API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  SIM_ENTER(cuIpcGetMemHandle, out);
  SIM_GET(Context, context, current_context(&context));
  Allocation allocation;
  if (find_mapped(address, nullptr) || !find_allocation(address, &allocation) ||
      allocation.type != MemoryType::device || allocation.managed || allocation.global || allocation.pool != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  wait_before_unmapping();
  const std::lock_guard guard(physical_lock());
  return handle_of(allocation, out);
}
SIM_CALL(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
         open_handle(out, handle, flags))
SIM_CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
         open_handle(out, handle, flags))
SIM_API CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  SIM_ENTER(cuIpcCloseMemHandle);
  SIM_GET(Context, context, current_context(&context));
  wait_before_unmapping();
  const std::lock_guard guard(physical_lock());
  Mapping* mapping = find_mapping(address);
  if (!mapping || mapping->kind != MappingKind::ipc) return CUDA_ERROR_INVALID_VALUE;
  if (--mapping->opens == 0) unmap_whole(Mapping(*mapping));
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
