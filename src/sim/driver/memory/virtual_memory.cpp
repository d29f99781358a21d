// Virtual memory management: address ranges, physical memory, and the mappings between them.
#include <fcntl.h>
#include <sys/mman.h>
#include <bit>
#include <cstring>
#include <map>

#include "sim/driver/memory/mappings.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kPosixFd = 1, kFabric = 8;                           // CUmemAllocationHandleType
constexpr unsigned kNoAccess = 0, kRead = 1, kReadWrite = 3;            // CUmemAccess_flags
constexpr unsigned kPinned = 1, kDevice = 1, kHostNuma = 3, kLast = 4;  // CUmemAllocationType, CUmemLocationType

// cuda.h: CUmemAllocationProp_v1.
struct Properties {
  unsigned type, handle_types;
  CUmemLocation location;
  void* win32;
  unsigned char flags[8];
};
static_assert(sizeof(Properties) == 32);

// base -> bytes of ranges reserved by cuMemAddressReserve. Under physical_lock().
std::map<std::uint64_t, std::uint64_t>& ranges() {
  static auto& forever = *new std::map<std::uint64_t, std::uint64_t>;
  return forever;
}

CUresult check(const CUmemAllocationProp* opaque, Properties* out) {
  if (!opaque) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, opaque, sizeof *out);
  if (out->type != kPinned || out->win32) return CUDA_ERROR_INVALID_VALUE;
  if (out->location.type == 0 || out->location.type >= kLast) return CUDA_ERROR_INVALID_VALUE;
  if (out->location.type != kDevice) return CUDA_ERROR_NOT_SUPPORTED;
  if (!known_device(out->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (out->handle_types & kFabric) return CUDA_ERROR_NOT_PERMITTED;  // no IMEX channel here
  return out->handle_types & ~kPosixFd ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

bool aligned(std::uint64_t value) { return value % kGranularity == 0; }

void* inaccessible(std::uint64_t at, std::uint64_t bytes) {
  return ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

// Aligns by reserving more and unmapping both ends.
std::uint64_t take_range(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes > ~0ull - alignment) return 0;
  void* taken = inaccessible(0, bytes + alignment);
  if (taken == MAP_FAILED) return 0;
  const auto from = reinterpret_cast<std::uint64_t>(taken);
  const std::uint64_t base = (from + alignment - 1) / alignment * alignment;
  if (base > from) ::munmap(taken, base - from);
  if (const std::uint64_t rest = from + alignment - base) ::munmap(reinterpret_cast<void*>(base + bytes), rest);
  return base;
}

// Returns true if one reserved range contains all of this.
bool inside_a_range(std::uint64_t address, std::uint64_t bytes) {
  auto it = ranges().upper_bound(address);
  if (it == ranges().begin()) return false;
  --it;
  const std::uint64_t into = address - it->first;
  return into <= it->second && bytes <= it->second - into;
}

CUresult map(std::uint64_t at, std::uint64_t bytes, std::uint64_t handle) {
  Physical* memory = find_physical(handle);
  if (!memory || memory->references == 0 || bytes > memory->bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!inside_a_range(at, bytes) || any_mapping_in(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (mirror(*memory, 0, bytes, at) == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  put_mapping({.base = at, .bytes = bytes, .handle = handle, .context = nullptr});
  return CUDA_SUCCESS;
}

CUresult set_access(const std::vector<Mapping*>& mappings, const CUmemAccessDesc& access) {
  if (access.location.type == kHostNuma) return CUDA_ERROR_NOT_SUPPORTED;
  if (access.location.type != kDevice) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (access.flags != kNoAccess && access.flags != kRead && access.flags != kReadWrite) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t bit = 1ull << library().visible[access.location.id];
  for (Mapping* mapping : mappings) {
    mapping->readers = access.flags & kRead ? mapping->readers | bit : mapping->readers & ~bit;
    mapping->writers = access.flags == kReadWrite ? mapping->writers | bit : mapping->writers & ~bit;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_API CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                                     unsigned long long flags) {
  SIM_ENTER(cuMemAddressReserve);
  if (!out || bytes == 0 || bytes % kPage != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t base = take_range(bytes, std::max<std::uint64_t>(alignment, kGranularity));
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard guard(physical_lock());
  ranges()[base] = bytes;
  return give(out, base);
}
SIM_API CUresult cuMemAddressFree(CUdeviceptr base, std::size_t bytes) {
  SIM_ENTER(cuMemAddressFree);
  const std::lock_guard guard(physical_lock());
  const auto found = ranges().find(base);
  if (found == ranges().end() || found->second != bytes || any_mapping_in(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  ranges().erase(found);
  ::munmap(reinterpret_cast<void*>(base), bytes);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* asked,
                                               CUmemAllocationGranularity_flags which) {
  SIM_ENTER(cuMemGetAllocationGranularity);
  Properties properties;
  if (!out || which > 1) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(check(asked, &properties));
  return give(out, kGranularity);
}
SIM_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* asked,
                             unsigned long long flags) {
  SIM_ENTER(cuMemCreate);
  Properties properties;
  if (!out || bytes == 0 || !aligned(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(check(asked, &properties));
  const std::lock_guard guard(physical_lock());
  std::uint64_t handle = 0;
  SIM_TRY(create_physical(properties.location.id, bytes, properties.handle_types, &handle));
  std::memcpy(find_physical(handle)->flags, properties.flags, sizeof properties.flags);
  return give(out, handle);
}
SIM_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  SIM_ENTER(cuMemRelease);
  const std::lock_guard guard(physical_lock());
  Physical* memory = find_physical(handle);
  if (!memory || memory->references == 0) return CUDA_ERROR_INVALID_VALUE;
  --memory->references;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  SIM_ENTER(cuMemRetainAllocationHandle);
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(reinterpret_cast<std::uint64_t>(address));
  if (!out || !mapping || mapping->kind != MappingKind::reserved) return CUDA_ERROR_INVALID_VALUE;
  ++find_physical(mapping->handle)->references;
  return give(out, mapping->handle);
}
SIM_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
  const std::lock_guard guard(physical_lock());
  const Physical* memory = find_physical(handle);
  if (!out || !memory || memory->references == 0) return CUDA_ERROR_INVALID_VALUE;
  Properties properties{};
  properties.type = kPinned;
  properties.handle_types = memory->handle_types;
  properties.location = {kDevice, ordinal_of(memory->node_device)};
  std::memcpy(properties.flags, memory->flags, sizeof properties.flags);
  std::memcpy(static_cast<void*>(out), &properties, sizeof properties);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemMap(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  SIM_ENTER(cuMemMap);
  if (bytes == 0 || !aligned(at) || !aligned(bytes) || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(physical_lock());
  return map(at, bytes, handle);
}
SIM_API CUresult cuMemUnmap(CUdeviceptr at, std::size_t bytes) {
  SIM_ENTER(cuMemUnmap);
  wait_before_unmapping();
  const std::lock_guard guard(physical_lock());
  std::vector<Mapping*> gone;
  if (!whole_mappings(at, bytes, &gone)) return CUDA_ERROR_INVALID_VALUE;
  if (inaccessible(at, bytes) == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  for (const Mapping* mapping : gone) {
    const std::uint64_t handle = mapping->handle;
    take_mapping(mapping->base);
    drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemSetAccess(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  SIM_ENTER(cuMemSetAccess);
  if (!access || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(physical_lock());
  std::vector<Mapping*> mappings;
  if (!whole_mappings(at, bytes, &mappings)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) SIM_TRY(set_access({}, access[i]));  // all or nothing
  for (std::size_t i = 0; i < count; ++i) SIM_TRY(set_access(mappings, access[i]));
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  SIM_ENTER(cuMemGetAccess);
  if (!flags || !location || location->type != kDevice) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(address);
  if (!mapping || mapping->kind != MappingKind::reserved) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t bit = 1ull << library().visible[location->id];
  return give(flags, mapping->writers & bit ? kReadWrite : mapping->readers & bit ? kRead : kNoAccess);
}
SIM_API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long flags) {
  SIM_ENTER(cuMemExportToShareableHandle);
  const std::lock_guard guard(physical_lock());
  const Physical* memory = find_physical(handle);
  if (!out || flags != 0 || !memory || memory->references == 0) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(type) != kPosixFd || memory->handle_types == 0) return CUDA_ERROR_INVALID_VALUE;
  UniqueFd file = library().node->open_shared(memory->shared);
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  const int fd = file.release();
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                                CUmemAllocationHandleType type) {
  SIM_ENTER(cuMemImportFromShareableHandle);
  if (!out || static_cast<unsigned>(type) != kPosixFd) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(physical_lock());
  const std::uint32_t shared = library().node->shared_of(static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
  if (shared == kNone) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t handle = 0;
  SIM_TRY(import_physical(shared, &handle));
  return give(out, handle);
}

}  // namespace headgate::sim::driver
