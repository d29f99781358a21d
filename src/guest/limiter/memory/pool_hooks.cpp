// Stream-ordered memory: allocations from pools, their frees, and creation, trimming and destruction of pools.
#include "guest/limiter/memory/descriptors.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/memory/memory.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/stream/streams.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

std::atomic<std::uint32_t> streams_epoch{1};

struct StreamDevice {
  CUstream stream;
  CUdevice device;
  std::uint32_t epoch;
};
__thread StreamDevice last_stream __attribute__((tls_model("initial-exec")));

// A stream allocates on its own device, not the current one. Returns `free` if the driver does not know the stream: it
// answers the request with an error.
Place place_of_stream(CUstream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2 || !seated()) return current_place();
  if (session.device_count == 1) return place_of(0);
  const std::uint32_t epoch = streams_epoch.load(std::memory_order_acquire);
  if (last_stream.stream != stream || last_stream.epoch != epoch) {
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (forward(driver.cuStreamGetCtx, stream, &context) != CUDA_SUCCESS || !device_of(context, device)) return {};
    last_stream = {stream, device, epoch};
  }
  return place_of(last_stream.device);
}

template <typename Allocate>
CUresult pooled(PoolAccounting& pool, const Place& place, CUdeviceptr* dptr, std::size_t bytes, CUstream stream,
                Allocate allocate) {
  OomWait wait;
  for (;;) {
    PoolRequest request(pool, place, bytes);
    switch (request.expect(wait)) {
      case Verdict::forward: return allocate();
      case Verdict::refused: return is_stream(stream) ? refusal() : allocate();
      case Verdict::reserved:
      case Verdict::on_host: break;  // never: pools have no host budget
    }
    const CUresult answer = noted(allocate());
    const CUresult result = request.settle(answer, dptr);
    if (!try_again(result, place, bytes, wait, answer == CUDA_SUCCESS)) return result;
  }
}

// If there is no pool record to charge, charges the request itself until it is freed.
template <typename Allocate>
CUresult charged_by_request(const Place& place, CUdeviceptr* dptr, std::size_t bytes, Allocate allocate) {
  const auto kept = [&] { keep(pointers, *dptr, {bytes, place.device_index, 0}); };
  return requested(place, bytes, allocate, kept, refusal);
}

template <typename Allocate>
CUresult from_current(CUdeviceptr* dptr, std::size_t bytes, CUstream stream, Allocate allocate) {
  if (dptr == nullptr || bytes == 0) return allocate();
  if (is_captured(stream)) return graph_allocated(allocate());
  const Place place = place_of_stream(stream);
  if (place.standing == Standing::free) return allocate();
  PoolAccounting* pool = current_pool_accounting(place);
  if (pool == nullptr) return charged_by_request(place, dptr, bytes, allocate);
  return pooled(*pool, place, dptr, bytes, stream, allocate);
}

template <typename Allocate>
CUresult from_named(CUdeviceptr* dptr, std::size_t bytes, CUmemoryPool handle, CUstream stream, Allocate allocate) {
  if (dptr == nullptr || bytes == 0) return allocate();
  if (is_captured(stream)) return graph_allocated(allocate());
  if (!seated() && current_place().standing == Standing::free) return allocate();
  Place place;
  if (PoolAccounting* pool = named_pool_accounting(handle, place); pool != nullptr) {
    return pooled(*pool, place, dptr, bytes, stream, allocate);
  }
  // Not on a GPU of the share, or not a pool: the driver answers.
  std::uint64_t reserved = 0;
  if (is_foreign_pool(handle) || forward(driver.cuMemPoolGetAttribute, handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                         static_cast<void*>(&reserved)) != CUDA_SUCCESS)
    return allocate();
  place = current_place();
  return place.standing == Standing::free ? allocate() : charged_by_request(place, dptr, bytes, allocate);
}

CUstream or_per_thread(CUstream stream) { return stream == nullptr ? stream_per_thread() : stream; }

}  // namespace

void headgate::limiter::memory_forget_streams() { streams_epoch.fetch_add(1, std::memory_order_acq_rel); }

HEADGATE_HOOK CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return from_current(dptr, bytesize, hStream,
                      [=] { return forward(driver.cuMemAllocAsync, dptr, bytesize, hStream); });
}

HEADGATE_HOOK CUresult cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return from_current(dptr, bytesize, or_per_thread(hStream),
                      [=] { return forward(driver.cuMemAllocAsync_ptsz, dptr, bytesize, hStream); });
}

HEADGATE_HOOK CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                               CUstream hStream) {
  return from_named(dptr, bytesize, pool, hStream,
                    [=] { return forward(driver.cuMemAllocFromPoolAsync, dptr, bytesize, pool, hStream); });
}

HEADGATE_HOOK CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                                    CUstream hStream) {
  return from_named(dptr, bytesize, pool, or_per_thread(hStream),
                    [=] { return forward(driver.cuMemAllocFromPoolAsync_ptsz, dptr, bytesize, pool, hStream); });
}

HEADGATE_HOOK CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  PoolFree from_pool(dptr);
  return from_pool.settle(released(pointers, dptr, [=] { return forward(driver.cuMemFreeAsync, dptr, hStream); }),
                          false);
}

HEADGATE_HOOK CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  PoolFree from_pool(dptr);
  return from_pool.settle(released(pointers, dptr, [=] { return forward(driver.cuMemFreeAsync_ptsz, dptr, hStream); }),
                          false);
}

HEADGATE_HOOK CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  const CUresult result = forward(driver.cuMemPoolCreate, pool, poolProps);
  if (result != CUDA_SUCCESS) return result;
  if (poolProps->location.type != kLocationDevice || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    foreign_pool_made(*pool);
    return result;
  }
  const Place place = place_of(poolProps->location.id);
  if (place.standing == Standing::held) pool_made(*pool, place);
  return result;
}

// The exporter is charged for its memory.
HEADGATE_HOOK CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                          CUmemAllocationHandleType handleType,
                                                          unsigned long long flags) {
  const CUresult result = forward(driver.cuMemPoolImportFromShareableHandle, pool_out, handle, handleType, flags);
  if (result == CUDA_SUCCESS) foreign_pool_made(*pool_out);
  return result;
}

HEADGATE_HOOK CUresult cuMemPoolDestroy(CUmemoryPool pool) { return pool_destroyed(pool); }

HEADGATE_HOOK CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  const CUresult result = forward(driver.cuMemPoolTrimTo, pool, minBytesToKeep);
  if (result == CUDA_SUCCESS) pool_trimmed(pool);
  return result;
}

HEADGATE_HOOK CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  const CUresult result = forward(driver.cuDeviceSetMemPool, dev, pool);
  current_pools_changed();
  return result;
}

HEADGATE_HOOK CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const CUresult result = forward(driver.cuMemSetMemPool, location, type, pool);
  current_pools_changed();
  return result;
}

HEADGATE_HOOK CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const CUresult result = forward(driver.cuDeviceGraphMemTrim, device);
  if (result == CUDA_SUCCESS && seated()) settle_graph_pool(place_of(device), 0);
  return result;
}
