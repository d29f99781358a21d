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
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  if (pool == nullptr || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  set_current_pool(device, pool);
  return CUDA_SUCCESS;
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
SIM_API CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  SIM_ENTER(cuMemPoolDestroy);
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  if (pool == nullptr || default_pool(pool->device) == pool) return CUDA_ERROR_INVALID_VALUE;
  destroy_pool(pool);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep) {
  SIM_ENTER(cuMemPoolTrimTo);
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool_trim(pool, keep);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  SIM_ENTER(cuMemPoolGetAttribute);
  const auto guard = lock_pools();
  const MemoryPool* pool = pool_of(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
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
SIM_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  SIM_ENTER(cuMemPoolSetAttribute);
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
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
SIM_API CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, std::size_t entries) {
  SIM_ENTER(cuMemPoolSetAccess);
  const auto guard = lock_pools();
  MemoryPool* pool = pool_of(handle);
  if (pool == nullptr || (map == nullptr && entries != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < entries; ++i) {
    const auto& [location, flags] = map[i];
    if (location.type != kOnDevice) return CUDA_ERROR_INVALID_VALUE;
    if (!known_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool own = location.id == pool->device;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ || (own && flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (std::size_t i = 0; i < entries; ++i) pool->access[static_cast<std::size_t>(map[i].location.id)] = map[i].flags;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  SIM_ENTER(cuMemPoolGetAccess);
  const auto guard = lock_pools();
  const MemoryPool* pool = pool_of(handle);
  if (flags == nullptr || pool == nullptr || location == nullptr || location->type != kOnDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!known_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  return give(flags, pool->access[static_cast<std::size_t>(location->id)]);
}
SIM_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), tell(out, device, default_pool))
SIM_CALL(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), tell(out, device, current_pool))
SIM_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), set_current(device, pool))
SIM_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  SIM_ENTER(cuDeviceGetGraphMemAttribute, value);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  const MemoryPool* pool = graph_pool(device);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return put_value(value, pool->used);
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return put_value(value, pool->used_high);
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return put_value(value, pool->reserved);
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return put_value(value, pool->reserved_high);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
SIM_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  SIM_ENTER(cuDeviceSetGraphMemAttribute, value);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  MemoryPool* pool = graph_pool(device);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t wide = 0;
  std::memcpy(&wide, value, sizeof wide);
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return reset_high(pool->used_high, pool->used, wide);
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return reset_high(pool->reserved_high, pool->reserved, wide);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
SIM_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  SIM_ENTER(cuDeviceGraphMemTrim);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto guard = lock_pools();
  if (MemoryPool* pool = graph_pool(device); pool != nullptr) pool_trim(pool, 0);
  return CUDA_SUCCESS;
}

// CUDA 13's access to the same pools, by location.
SIM_API CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SIM_ENTER(cuMemGetDefaultMemPool);
  CUdevice device = 0;
  SIM_TRY(device_at(location, type, &device));
  return tell(out, device, default_pool);
}
SIM_API CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SIM_ENTER(cuMemGetMemPool);
  CUdevice device = 0;
  SIM_TRY(device_at(location, type, &device));
  return tell(out, device, current_pool);
}
SIM_API CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  SIM_ENTER(cuMemSetMemPool);
  CUdevice device = 0;
  SIM_TRY(device_at(location, type, &device));
  return set_current(device, pool);
}

}  // namespace headgate::sim::driver
