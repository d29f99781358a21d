// A driver that returns at once and does nothing, so that only the cost of a preloaded library is measured.
//
// One device; every launch is free, and every event is complete when recorded. Its clock is the host's: an interval of
// two events is the host time between their records, as a meter would see it on a GPU that runs each launch at once.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <ctime>

#include "guest/abi/cuda.hpp"
#include "nop_driver/calls.hpp"

#define NOP_ANSWER extern "C" __attribute__((visibility("default")))

namespace headgate::abi {

using bench::nop::count_call;
using bench::nop::count_launch;
using bench::nop::kMemoryBytes;

namespace {

std::atomic<std::uint64_t> g_next{0x7f00'0000'0000};  // the next handle or address
thread_local CUcontext t_current = nullptr;

struct Event {
  std::int64_t recorded_ns = 0;
};

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

template <typename T>
CUresult hand_out(T* where) {
  count_call();
  *where = reinterpret_cast<T>(g_next.fetch_add(4096, std::memory_order_relaxed));
  return CUDA_SUCCESS;
}

CUcontext primary() { return reinterpret_cast<CUcontext>(0x1000); }
CUcontext use_primary() {
  bench::nop::g_has_context.store(true, std::memory_order_relaxed);
  return primary();
}

}  // namespace

NOP_ANSWER CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   CUstream, void**, void**) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  count_launch();
  return CUDA_SUCCESS;
}

NOP_ANSWER CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                              unsigned, CUstream, void**) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, CUstream, void**, void**) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig*, CUfunction, void**, void**) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                   unsigned, unsigned, CUstream, void**) {
  count_launch();
  return CUDA_SUCCESS;
}

NOP_ANSWER CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuGraphLaunch_ptsz(CUgraphExec, CUstream) {
  count_launch();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph, unsigned long long) {
  return hand_out(exec);
}
NOP_ANSWER CUresult cuStreamEndCapture(CUstream, CUgraph* graph) { return hand_out(graph); }
// All graphs are empty.
NOP_ANSWER CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, std::size_t* count) {
  count_call();
  *count = 0;
  return CUDA_SUCCESS;
}

NOP_ANSWER CUresult cuDriverGetVersion(int* version) {
  count_call();
  *version = 13000;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGetCount(int* count) {
  count_call();
  *count = 1;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  count_call();
  *device = 0;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
NOP_ANSWER CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  count_call();
  std::strncpy(name, "do-nothing GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  count_call();
  std::memcpy(uuid->bytes, "do-nothing gpu 0", 16);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }
NOP_ANSWER CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice) {
  count_call();
  std::strncpy(id, "0000:01:00.0", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  count_call();
  *bytes = kMemoryBytes;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  count_call();
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? 132
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                       : 1;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  count_call();
  *context = use_primary();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  count_call();
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice) {
  count_call();
  *context = t_current = use_primary();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxSetCurrent(CUcontext context) {
  count_call();
  t_current = context;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxPushCurrent_v2(CUcontext context) { return cuCtxSetCurrent(context); }
NOP_ANSWER CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  count_call();
  if (context != nullptr) *context = t_current;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxGetCurrent(CUcontext* context) {
  count_call();
  *context = t_current;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxGetDevice(CUdevice* device) {
  count_call();
  *device = 0;
  return t_current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  count_call();
  *id = 1;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  count_call();
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  count_call();
  *context = primary();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuStreamGetCtx_v2(CUstream, CUcontext* context, CUgreenCtx* green) {
  count_call();
  *context = primary();
  *green = nullptr;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  count_call();
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuModuleLoadData(CUmodule* module, const void*) { return hand_out(module); }
NOP_ANSWER CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) { return hand_out(function); }
NOP_ANSWER CUresult cuStreamCreate(CUstream* stream, unsigned) { return hand_out(stream); }
NOP_ANSWER CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) { return hand_out(stream); }

NOP_ANSWER CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  count_call();
  *address = g_next.fetch_add((bytes + 511) & ~511ull, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

// A pool that never grows and reuses the latest freed piece first.
namespace {
struct Freed {
  CUdeviceptr address[64];
  unsigned count;
};
thread_local Freed t_freed;
}  // namespace
NOP_ANSWER CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  count_call();
  *pool = reinterpret_cast<CUmemoryPool>(0x2000);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return cuDeviceGetDefaultMemPool(pool, device);
}
NOP_ANSWER CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  count_call();
  constexpr std::uint64_t kReserved = 1 << 30;
  std::memcpy(value, &kReserved, sizeof kReserved);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream) {
  count_call();
  *address = t_freed.count != 0 ? t_freed.address[--t_freed.count]
                                : g_next.fetch_add((bytes + 511) & ~511ull, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  count_call();
  if (t_freed.count < 64) t_freed.address[t_freed.count++] = address;
  return CUDA_SUCCESS;
}

NOP_ANSWER CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  count_call();
  *free_bytes = *total_bytes = kMemoryBytes;
  return CUDA_SUCCESS;
}

NOP_ANSWER CUresult cuEventCreate(CUevent* event, unsigned) {
  count_call();
  *event = reinterpret_cast<CUevent>(new Event);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuEventDestroy_v2(CUevent event) {
  count_call();
  delete reinterpret_cast<Event*>(event);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuEventRecord(CUevent event, CUstream) {
  count_call();
  reinterpret_cast<Event*>(event)->recorded_ns = now_ns();
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  count_call();
  *milliseconds = static_cast<float>(
      static_cast<double>(reinterpret_cast<Event*>(end)->recorded_ns - reinterpret_cast<Event*>(start)->recorded_ns) *
      1e-6);
  return CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

// Returns the newest entry of the name, which CUDA 13's cuda.h would bind.
NOP_ANSWER CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                        CUdriverProcAddressQueryResult* status) {
  count_call();
  *function = nullptr;
  for (const char* suffix : {"_v3", "_v2", ""}) {
    char name[128];
    std::strncpy(name, symbol, sizeof name - 8);
    name[sizeof name - 8] = '\0';
    std::strcat(name, suffix);
    Dl_info self{};
    ::dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &self);
    void* library = ::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = library == nullptr ? nullptr : ::dlsym(library, name);
    if (*function != nullptr) break;
  }
  if (status != nullptr) {
    *status = *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
NOP_ANSWER CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

}  // namespace headgate::abi

// Functions for the bench, in addition to the driver's.
NOP_ANSWER std::uint64_t headgate_nop_other_calls() { return headgate::bench::nop::g_other_calls.load(); }
NOP_ANSWER std::uint64_t headgate_nop_launches() { return headgate::bench::nop::g_launches.load(); }
