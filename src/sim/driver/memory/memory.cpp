// Allocation of device and host memory, and attributes of addresses.
#include "sim/driver/memory/memory.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <algorithm>
#include <map>
#include <shared_mutex>

#include "sim/driver/graph/graph_memory.hpp"
#include "sim/driver/memory/arena.hpp"
#include "sim/driver/memory/mappings.hpp"
#include "sim/driver/memory/pool.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

struct Memory {
  std::shared_mutex lock;
  std::map<std::uint64_t, Allocation> allocations;  // by base
};
Memory& memory() { return forever<Memory>(); }

// Takes address space. Charges the context at once unless the memory is managed. Returns 0 if there is no room.
std::uint64_t take(const Context* context, std::uint64_t bytes, bool managed) {
  const std::uint64_t slab_bytes = library().profile().slab_bytes;
  if (managed) return arena_take(context, std::max(bytes, kSlabBytes), 0, [](std::uint64_t) { return true; });
  std::uint64_t taken = 0;
  const std::uint64_t base = arena_take(context, bytes, slab_bytes, [&](std::uint64_t footprint) {
    if (!Node::Locked(*library().node)->reserve(context->account, bytes, footprint)) return false;
    taken = footprint;
    return true;
  });
  if (base == 0 && taken != 0) Node::Locked(*library().node)->release(context->account, bytes, taken);
  return base;
}

void give_back(const Allocation& allocation) {
  if (allocation.managed) {
    managed_gone(allocation.base);
    (void)arena_give(allocation.base, std::max(allocation.bytes, kSlabBytes), 0);
    return;
  }
  // The bytes of an exported allocation are counted separately, so only the rest of its slab is released here.
  const std::uint64_t elsewhere = give_back_exported(allocation) ? allocation.bytes : 0;
  const std::uint64_t footprint = arena_give(allocation.base, allocation.bytes, library().profile().slab_bytes);
  Node::Locked(*library().node)
      ->release(allocation.context->account, allocation.bytes - elsewhere, footprint - elsewhere);
}

// Upper bound: no allocation can exceed the memory of host and device together, or of the host alone.
std::uint64_t host_bytes() {
  struct sysinfo machine{};
  return ::sysinfo(&machine) == 0 ? std::uint64_t{machine.totalram} * machine.mem_unit : 0;
}

bool find_own(std::uint64_t address, Allocation* out) {
  const std::shared_lock guard(memory().lock);
  auto it = memory().allocations.upper_bound(address);
  if (it == memory().allocations.begin()) return false;
  --it;
  if (address - it->second.base >= std::max<std::uint64_t>(it->second.bytes, 1)) return false;
  if (out) *out = it->second;
  return true;
}

CUresult free_one(std::uint64_t address, bool global) {
  Allocation found;
  if (CUresult answer = CUDA_SUCCESS; free_graph_memory(address, nullptr, &answer)) return answer;
  {
    const std::unique_lock guard(memory().lock);
    const auto it = memory().allocations.find(address);
    if (it == memory().allocations.end() || it->second.type != MemoryType::device || it->second.global != global) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    found = it->second;
    memory().allocations.erase(it);
  }
  if (found.pool != nullptr) {
    free_pool_memory(found);
    return CUDA_SUCCESS;
  }
  if (payloads_pending()) (void)wait_context(found.context);  // a context that ended in an error copies no more
  give_back(found);
  return CUDA_SUCCESS;
}

// cuda.h: CU_MEM_ATTACH_*; the sum of CU_MEMHOSTREGISTER_*.
constexpr unsigned kAttachGlobal = 1, kAttachHost = 2, kMaxRegisterFlags = 0xf;
constexpr std::uint64_t kPageBytes = 4096;

bool overlaps(std::uint64_t base, std::uint64_t bytes) {
  if (find_allocation(base, nullptr)) return true;
  const std::shared_lock guard(memory().lock);
  const auto next = memory().allocations.lower_bound(base);
  return next != memory().allocations.end() && next->first - base < bytes;
}

CUresult allocate(CUdeviceptr* out, std::size_t bytes) {
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  std::uint64_t address = 0;
  SIM_TRY(allocate_device(context, bytes, false, false, &address));
  return give(out, address);
}

CUresult host_allocate(void** out, std::size_t bytes, unsigned flags) {
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  if (bytes > host_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  note_allocation({.base = reinterpret_cast<std::uint64_t>(at),
                   .bytes = bytes,
                   .context = context,
                   .type = MemoryType::host,
                   .flags = flags});
  return give(out, at);
}

CUresult host_remove(void* address, bool registered, CUresult unknown) {
  SIM_GET(Context, context, current_context(&context));
  if (payloads_pending()) SIM_TRY(wait_context(context));
  const std::unique_lock guard(memory().lock);
  const auto it = memory().allocations.find(reinterpret_cast<std::uint64_t>(address));
  if (it == memory().allocations.end() || it->second.type != MemoryType::host || it->second.registered != registered)
    return unknown;
  if (!registered) ::munmap(address, it->second.bytes);
  memory().allocations.erase(it);
  return CUDA_SUCCESS;
}

CUresult host_register(void* address, std::size_t bytes, unsigned flags) {
  if (!address || bytes == 0 || flags > kMaxRegisterFlags) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  const auto base = reinterpret_cast<std::uint64_t>(address);
  if (bytes > ~base) return CUDA_ERROR_INVALID_VALUE;
  if (overlaps(base, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  // Only mapped memory can be pinned: for a hole the kernel returns ENOMEM.
  const std::uint64_t page = base / kPageBytes * kPageBytes;
  if (::msync(reinterpret_cast<void*>(page), base + bytes - page, MS_ASYNC) != 0) return CUDA_ERROR_INVALID_VALUE;
  note_allocation({.base = reinterpret_cast<std::uint64_t>(address),
                   .bytes = bytes,
                   .context = context,
                   .type = MemoryType::host,
                   .registered = true,
                   .flags = flags});
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const bool mapped = find_mapped(address, &found);
  if (!mapped && !find_allocation(address, &found)) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<unsigned>(which)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put_value(data, reinterpret_cast<CUcontext>(found.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put_value(data, static_cast<unsigned>(found.type));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put_value(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (found.type != MemoryType::host && !found.managed) return CUDA_ERROR_INVALID_VALUE;
      return put_value(data, address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put_value(data, static_cast<unsigned>(found.managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      if (mapped) return put_value(data, mapped_ordinal(address));
      return put_value(data, found.pool != nullptr ? found.pool->device : found.context->device);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      if (mapped) return CUDA_ERROR_NOT_SUPPORTED;
      const bool named = found.pool != nullptr && found.pool->valid();
      return put_value(data, named ? reinterpret_cast<CUmemoryPool>(found.pool) : nullptr);
    }
    case 7: return put_value(data, static_cast<unsigned long long>(found.base));  // BUFFER_ID
    case 10: return mapped ? put_value(data, 0u) : CUDA_ERROR_NOT_SUPPORTED;      // IS_LEGACY_CUDA_IPC_CAPABLE
    case 11: return put_value(data, static_cast<CUdeviceptr>(found.base));        // RANGE_START_ADDR
    case 12: return put_value(data, static_cast<std::size_t>(found.bytes));       // RANGE_SIZE
    case 13: return put_value(data, 1);                                           // MAPPED
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// What cuPointerGetAttributes returns for an address that is not allocated.
void pointer_attribute_or_nothing(void* data, CUpointer_attribute which, CUdeviceptr address) {
  if (pointer_attribute(data, which, address) == CUDA_SUCCESS) return;
  if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put_value(data, -2);
  else if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || which == CU_POINTER_ATTRIBUTE_IS_MANAGED) put_value(data, 0u);
  else put_value(data, std::uint64_t{0});
}

}  // namespace

void note_allocation(const Allocation& allocation) {
  const std::unique_lock guard(memory().lock);
  memory().allocations[allocation.base] = allocation;
}

bool take_pool_allocation(std::uint64_t address, Allocation* out) {
  const std::unique_lock guard(memory().lock);
  const auto it = memory().allocations.find(address);
  if (it == memory().allocations.end() || it->second.pool == nullptr || it->second.graph) return false;
  *out = it->second;
  memory().allocations.erase(it);
  return true;
}

void forget_graph_allocation(std::uint64_t address) {
  const std::unique_lock guard(memory().lock);
  memory().allocations.erase(address);
}

bool find_allocation(std::uint64_t address, Allocation* out) {
  return find_own(address, out) || find_mapped(address, out);
}

bool is_device_address(std::uint64_t address, std::uint64_t bytes) {
  Allocation found;
  if (!find_own(address, &found)) return is_mapped_address(address, bytes);
  return find_own(address, &found) && bytes <= found.base + found.bytes - address;
}

bool is_pinned(std::uint64_t address, std::uint64_t bytes) {
  Allocation found;
  return find_allocation(address, &found) && found.type == MemoryType::host &&
         bytes <= found.base + found.bytes - address;
}

CUresult allocate_device(Context* context, std::uint64_t bytes, bool managed, bool global, std::uint64_t* address) {
  count(counters(context).allocations);
  std::uint64_t base = take(context, bytes, managed);
  // This process's pools may hold unused memory; so may dead processes.
  if (base == 0 && pools_give_way(context->device)) base = take(context, bytes, managed);
  if (base == 0) {
    library().node->reap();
    base = take(context, bytes, managed);
  }
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  note_allocation({.base = base,
                   .bytes = bytes,
                   .context = context,
                   .type = MemoryType::device,
                   .managed = managed,
                   .global = global});
  return give(address, base);
}

CUresult free_device(std::uint64_t address) {
  const CUresult result = free_one(address, false);
  return result == CUDA_ERROR_INVALID_VALUE ? free_external(address) : result;
}
void free_global(std::uint64_t address) { (void)free_one(address, true); }

void free_memory_of(Context* context) {
  forget_mappings_of(context);
  std::vector<Allocation> gone;
  {
    const std::unique_lock guard(memory().lock);
    std::erase_if(memory().allocations, [&](const auto& entry) {
      const Allocation& allocation = entry.second;
      if (allocation.context != context || allocation.type != MemoryType::device || allocation.pool) return false;
      gone.push_back(allocation);
      return true;
    });
  }
  for (const Allocation& allocation : gone) give_back(allocation);
}

SIM_CALL(cuMemAlloc_v2, (CUdeviceptr * out, std::size_t bytes), allocate(out, bytes))
SIM_API CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  SIM_ENTER(cuMemAllocManaged);
  if (!out || bytes == 0 || (flags != kAttachGlobal && flags != kAttachHost)) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  if (bytes > host_bytes() + library().profile().memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t address = 0;
  SIM_TRY(allocate_device(context, bytes, true, false, &address));
  {
    const std::unique_lock guard(memory().lock);
    Allocation& made = memory().allocations[address];
    made.flags = flags;
    managed_made(made);
  }
  return give(out, address);
}
SIM_API CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch_out, std::size_t width, std::size_t height,
                                    unsigned element) {
  SIM_ENTER(cuMemAllocPitch_v2);
  if (!out || !pitch_out || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t row = (width + kAlignment - 1) / kAlignment * kAlignment;
  if (row == 0 || height > ~std::size_t{0} / row) return CUDA_ERROR_OUT_OF_MEMORY;
  SIM_TRY(allocate(out, row * height));
  return give(pitch_out, row);
}
SIM_API CUresult cuMemFree_v2(CUdeviceptr address) {
  SIM_ENTER(cuMemFree_v2);
  SIM_GET(Context, context, current_context(&context));
  return address == 0 ? CUDA_SUCCESS : free_device(address);
}
SIM_API CUresult cuMemGetInfo_v2(std::size_t* free_out, std::size_t* total_out) {
  SIM_ENTER(cuMemGetInfo_v2);
  SIM_GET(Context, context, current_context(&context));
  Node::Advanced locked(*library().node);
  // In a cgroup with a limit the driver answers that limit.
  const Account& account = locked->state().accounts[context->account];
  const MemoryFence* const fence =
      locked->fence_of(locked->state().processes[account.process].cgroups, context->node_device);
  if (free_out) *free_out = locked->free_bytes_for(account);
  if (total_out)
    *total_out = fence == nullptr ? locked->capacity_bytes() : std::min(locked->capacity_bytes(), fence->hard_bytes);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  SIM_ENTER(cuMemGetAddressRange_v2);
  SIM_GET(Context, context, current_context(&context));
  Allocation found;
  if (!find_allocation(address, &found)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = found.base;
  if (bytes) *bytes = found.bytes;
  return CUDA_SUCCESS;
}
SIM_CALL(cuMemAllocHost_v2, (void** out, std::size_t bytes), host_allocate(out, bytes, 0))
SIM_CALL(cuMemAllocHost, (void** out, unsigned bytes), host_allocate(out, bytes, 0))
SIM_CALL(cuMemHostAlloc, (void** out, std::size_t bytes, unsigned flags),
         flags > 7 ? CUDA_ERROR_INVALID_VALUE : host_allocate(out, bytes, flags))
SIM_CALL(cuMemFreeHost, (void* address),
         address ? host_remove(address, false, CUDA_ERROR_INVALID_VALUE) : CUDA_ERROR_INVALID_VALUE)
SIM_CALL(cuMemHostRegister, (void* address, std::size_t bytes, unsigned flags), host_register(address, bytes, flags))
SIM_CALL(cuMemHostRegister_v2, (void* address, std::size_t bytes, unsigned flags), host_register(address, bytes, flags))
SIM_CALL(cuMemHostUnregister, (void* address), host_remove(address, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED))
SIM_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned flags) {
  SIM_ENTER(cuMemHostGetDevicePointer_v2);
  if (!out || flags != 0 || !is_pinned(reinterpret_cast<std::uint64_t>(address), 1)) return CUDA_ERROR_INVALID_VALUE;
  return give(out, reinterpret_cast<CUdeviceptr>(address));
}
SIM_API CUresult cuMemHostGetFlags(unsigned* flags, void* address) {
  SIM_ENTER(cuMemHostGetFlags);
  Allocation found;
  if (!flags || !find_allocation(reinterpret_cast<std::uint64_t>(address), &found) || found.type != MemoryType::host) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return give(flags, found.flags);
}
SIM_CALL(cuPointerGetAttribute, (void* data, CUpointer_attribute which, CUdeviceptr address),
         pointer_attribute(data, which, address))
SIM_API CUresult cuPointerGetAttributes(unsigned count_in, CUpointer_attribute* which, void** data,
                                        CUdeviceptr address) {
  SIM_ENTER(cuPointerGetAttributes);
  if (!which || !data || count_in == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count_in; ++i) pointer_attribute_or_nothing(data[i], which[i], address);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
