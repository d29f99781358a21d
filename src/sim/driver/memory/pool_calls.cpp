// The driver's functions for stream-ordered memory.
#include <cstring>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/graph/graph_memory.hpp"
#include "sim/driver/memory/pool.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kOnDevice = 1;  // cuda.h: CU_MEM_LOCATION_TYPE_DEVICE

// Pools of host memory and of managed memory are not modelled.
CUresult device_at(const CUmemLocation* location, CUmemAllocationType type, CUdevice* out) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != kOnDevice) {
    const bool exists = type <= CU_MEM_ALLOCATION_TYPE_MANAGED && type != 0 && location->type <= 4;
    return exists ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  if (!known_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  return give(out, location->id);
}

// act(pool), under the pools' lock.
template <typename Act>
CUresult with_pool(CUmemoryPool handle, Act act) {
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : act(pool);
}
template <typename Act>
CUresult with_graph_pool(CUdevice device, const void* value, Act act) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  MemoryPool* pool = graph_pool(device);
  return pool == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : act(pool);
}

CUresult trim_graph_pool(CUdevice device) {
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  if (MemoryPool* pool = graph_pool(device); pool != nullptr) pool_trim(pool, 0);
  return CUDA_SUCCESS;
}

CUresult tell(CUmemoryPool* out, CUdevice device, MemoryPool* (*which)(int)) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  MemoryPool* pool = which(device);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return give(out, pool);
}

CUresult set_current(CUdevice device, CUmemoryPool handle) {
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return with_pool(handle, [&](MemoryPool* pool) {
    if (pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    set_current_pool(device, pool);
    return CUDA_SUCCESS;
  });
}

// act(device of the location).
template <typename Act>
CUresult at_location(const CUmemLocation* location, CUmemAllocationType type, Act act) {
  CUdevice device = 0;
  SIM_TRY(device_at(location, type, &device));
  return act(device);
}

// Adds a node to the captured graph. Its memory comes from the device's graph pool, whichever pool was named.
CUresult capture_allocation(CUdeviceptr* out, std::size_t bytes, const CUmemoryPool* handle, Stream* stream) {
  AllocateNodeParams given{};
  given.pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  given.pool.location = {kOnDevice, stream->context->device};
  given.bytes = bytes;
  if (handle != nullptr) {
    const auto guard = lock_pools();
    const MemoryPool* pool = pool_of(*handle);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    given.pool.location.id = pool->device;
  }
  Work work;
  SIM_TRY(allocate_work(given, &work));
  const CUdeviceptr address = std::get<AllocateWork>(work).memory->told.address;
  SIM_TRY(capture_work(stream, NodeType::allocate, std::move(work)));
  return give(out, address);
}

// `handle` null: the current pool of the stream's device.
CUresult allocate(CUdeviceptr* out, std::size_t bytes, const CUmemoryPool* handle, CUstream stream_handle,
                  bool per_thread) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  if (is_capturing(stream)) return capture_allocation(out, bytes, handle, stream);
  Allocation made{.bytes = bytes, .context = stream->context};
  {
    const auto guard = lock_pools();
    made.pool = handle != nullptr ? pool_of(*handle) : current_pool(stream->context->device);
    if (made.pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    count(counters(stream->context).allocations);
    SIM_TRY(pool_allocate(made.pool, stream, bytes, &made.base));
    note_allocation(made);
  }
  return give(out, made.base);
}

CUresult free_in(CUdeviceptr address, CUstream stream_handle, bool per_thread) {
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) {
    Work work;
    SIM_TRY(free_work(address, &work));
    return capture_work(stream, NodeType::free, std::move(work));
  }
  const Marks marks = marks_of(stream);
  if (CUresult answer = CUDA_SUCCESS; free_graph_memory(address, &marks, &answer)) return answer;
  Allocation found;
  if (!take_pool_allocation(address, &found)) return CUDA_ERROR_INVALID_VALUE;
  const auto guard = lock_pools();
  pool_free(found.pool, found.base, &marks);
  return CUDA_SUCCESS;
}

CUresult reset_high(std::uint64_t& high, std::uint64_t current, std::uint64_t value) {
  if (value != 0) return CUDA_ERROR_INVALID_VALUE;
  high = current;
  return CUDA_SUCCESS;
}

CUresult destroy_unless_default(MemoryPool* pool) {
  if (default_pool(pool->device) == pool) return CUDA_ERROR_INVALID_VALUE;
  destroy_pool(pool);
  return CUDA_SUCCESS;
}
CUresult trimmed_to(MemoryPool* pool, std::size_t keep) {
  pool_trim(pool, keep);
  return CUDA_SUCCESS;
}

CUresult get_pool_attribute(const MemoryPool* pool, CUmemPool_attribute which, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return put_value(value, pool->follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return put_value(value, pool->opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return put_value(value, pool->internal_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return put_value(value, pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return put_value(value, pool->reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return put_value(value, pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return put_value(value, pool->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return put_value(value, pool->used_high);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_pool_attribute(MemoryPool* pool, CUmemPool_attribute which, const void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t wide = 0;
  const bool narrow = which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  std::memcpy(&wide, value, narrow ? sizeof(int) : sizeof wide);
  const int flag = wide != 0;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: pool->follow_events = flag; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: pool->opportunistic = flag; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->internal_dependencies = flag; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->release_threshold = wide; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return reset_high(pool->reserved_high, pool->reserved, wide);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return reset_high(pool->used_high, pool->used, wide);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// The attributes of a device's graph pool, in terms of any pool's.
CUmemPool_attribute pool_attribute(CUgraphMem_attribute which) {
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    default: return CUmemPool_attribute{};
  }
}

CUresult set_pool_access(MemoryPool* pool, const CUmemAccessDesc* map, std::size_t entries) {
  if (map == nullptr && entries != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < entries; ++i) {
    const auto& [location, flags] = map[i];
    if (location.type != kOnDevice) return CUDA_ERROR_INVALID_VALUE;
    if (!known_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool own = location.id == pool->device;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ || (own && flags == CU_MEM_ACCESS_FLAGS_PROT_NONE))
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < entries; ++i) pool->access[static_cast<std::size_t>(map[i].location.id)] = map[i].flags;
  return CUDA_SUCCESS;
}

CUresult get_pool_access(const MemoryPool* pool, CUmemAccess_flags* flags, const CUmemLocation* location) {
  if (flags == nullptr || location == nullptr || location->type != kOnDevice) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  return give(flags, pool->access[static_cast<std::size_t>(location->id)]);
}

}  // namespace

SIM_CALL_PTSZ(cuMemAllocAsync, (CUdeviceptr * out, std::size_t bytes, CUstream stream),
              allocate(out, bytes, nullptr, stream, per_thread))
SIM_CALL_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr * out, std::size_t bytes, CUmemoryPool pool, CUstream stream),
              allocate(out, bytes, &pool, stream, per_thread))
SIM_CALL_PTSZ(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free_in(address, stream, per_thread))

SIM_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  SIM_ENTER(cuMemPoolCreate, out, props);
  CUdevice device = 0;
  SIM_TRY(device_at(&props->location, props->allocType, &device));
  if (props->handleTypes != 0 || props->usage != 0) return CUDA_ERROR_NOT_SUPPORTED;  // no export between processes
  const auto guard = lock_pools();
  MemoryPool* pool = make_pool(device);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (props->maxSize != 0) pool->most_bytes = props->maxSize;
  return give(out, pool);
}
SIM_CALL(cuMemPoolDestroy, (CUmemoryPool handle), with_pool(handle, destroy_unless_default))
SIM_CALL(cuMemPoolTrimTo, (CUmemoryPool handle, std::size_t keep),
         with_pool(handle, [&](MemoryPool* pool) { return trimmed_to(pool, keep); }))
SIM_CALL(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* value),
         with_pool(handle, [&](MemoryPool* pool) { return get_pool_attribute(pool, which, value); }))
SIM_CALL(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* value),
         with_pool(handle, [&](MemoryPool* pool) { return set_pool_attribute(pool, which, value); }))
SIM_CALL(cuMemPoolSetAccess, (CUmemoryPool handle, const CUmemAccessDesc* map, std::size_t entries),
         with_pool(handle, [&](MemoryPool* pool) { return set_pool_access(pool, map, entries); }))
SIM_CALL(cuMemPoolGetAccess, (CUmemAccess_flags * flags, CUmemoryPool handle, CUmemLocation* location),
         with_pool(handle, [&](MemoryPool* pool) { return get_pool_access(pool, flags, location); }))
SIM_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), tell(out, device, default_pool))
SIM_CALL(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), tell(out, device, current_pool))
SIM_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), set_current(device, pool))
SIM_CALL(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute which, void* value),
         with_graph_pool(device, value,
                         [&](MemoryPool* pool) { return get_pool_attribute(pool, pool_attribute(which), value); }))
SIM_CALL(cuDeviceSetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute which, void* value),
         with_graph_pool(device, value,
                         [&](MemoryPool* pool) { return set_pool_attribute(pool, pool_attribute(which), value); }))
SIM_CALL(cuDeviceGraphMemTrim, (CUdevice device), trim_graph_pool(device))

// CUDA 13's access to the same pools, by location.
SIM_CALL(cuMemGetDefaultMemPool, (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type),
         at_location(location, type, [&](CUdevice device) { return tell(out, device, default_pool); }))
SIM_CALL(cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type),
         at_location(location, type, [&](CUdevice device) { return tell(out, device, current_pool); }))
SIM_CALL(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
         at_location(location, type, [&](CUdevice device) { return set_current(device, pool); }))

}  // namespace headgate::sim::driver
