// A CUDA driver that does nothing, fast: for the link contract, for routing tests and to measure the limiter's
// overhead. It keeps just enough state to reply like a driver: a current context per thread, errors for null pointers,
// zero sizes and missing contexts, addresses that are unique while in use.
//
// quiet_plain.cpp adds all other functions of the table. Without it, and with QUIET_DRIVER_OLD, this driver lacks most
// of them.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "guest/abi/cuda.hpp"

using namespace headgate::abi;

#define QUIET extern "C" __attribute__((visibility("default")))

extern "C" {
#define CU_FN(name, kind, since, parameters, arguments) name##_t name;
#include "guest/abi/cuda_table.def"
}

namespace {

constexpr std::uint64_t kCardBytes = 16ull << 30;
std::atomic<bool> initialized{false};
std::atomic<std::uint64_t> next_address{0x7000'0000'0000};
std::atomic<std::uint64_t> real_allocations{0};
std::atomic<std::uint64_t> taken{0};
std::atomic<void (*)()> during_release{nullptr};
std::atomic<CUmemGenericAllocationHandle> freed_handle{0};
thread_local CUcontext current = nullptr;
thread_local CUcontext below[8];  // the thread's stack of contexts below the current one
thread_local std::size_t below_count = 0;
std::uint64_t contexts[2];

CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(&contexts[device]); }

CUresult check(const void* out, std::size_t bytes) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return out == nullptr || bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, std::size_t bytes) {
  if (const CUresult wrong = check(out, bytes); wrong != CUDA_SUCCESS) return wrong;
  real_allocations.fetch_add(1, std::memory_order_relaxed);
  *out = next_address.fetch_add((bytes + 511) & ~std::size_t{511}, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace

// For tests: number of allocation calls that arrived, and memory taken by other programs.
QUIET std::uint64_t quiet_allocations() { return real_allocations; }
// `meanwhile` runs once the next handle is free, before its release has returned, as if in another thread.
QUIET void quiet_during_release(void (*meanwhile)()) { during_release = meanwhile; }
QUIET void quiet_take(std::uint64_t bytes) { taken = bytes; }

QUIET CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialized = true;
  return CUDA_SUCCESS;
}
QUIET CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}
QUIET CUresult cuDeviceGetCount(int* count) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = 2;
  return CUDA_SUCCESS;
}
QUIET CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal < 0 || ordinal > 1) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
QUIET CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (std::getenv("QUIET_NAMELESS") != nullptr) return CUDA_ERROR_NOT_FOUND;
  std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}
QUIET CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device > 1) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = kCardBytes;
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr || device < 0 || device > 1) return CUDA_ERROR_INVALID_VALUE;
  current = *context = context_of(device);
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxDestroy_v2(CUcontext context) {
  if (current == context) current = nullptr;
  return CUDA_SUCCESS;
}
QUIET CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *context = context_of(device);
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (below_count == std::size(below)) return CUDA_ERROR_INVALID_VALUE;
  below[below_count++] = current;
  current = context;
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current;
  current = below_count == 0 ? nullptr : below[--below_count];
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxGetCurrent(CUcontext* context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *context = current;
  return CUDA_SUCCESS;
}
QUIET CUresult cuCtxGetDevice(CUdevice* device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current == context_of(1) ? 1 : 0;
  return CUDA_SUCCESS;
}
QUIET CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (free != nullptr) *free = kCardBytes - taken;
  if (total != nullptr) *total = kCardBytes;
  return CUDA_SUCCESS;
}
QUIET CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) { return allocate(out, bytes); }
QUIET CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned) { return allocate(out, bytes); }
QUIET CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                  unsigned) {
  if (pitch == nullptr) return check(nullptr, 0);
  *pitch = (width + 255) & ~std::size_t{255};
  return allocate(out, *pitch * height);
}
QUIET CUresult cuMemFree_v2(CUdeviceptr address) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (address == 0) return CUDA_SUCCESS;
  return address >= 0x7000'0000'0000 && address < next_address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
QUIET CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  CUdeviceptr address = 0;
  const CUresult result = allocate(descriptor == nullptr || out == nullptr ? nullptr : &address, 1);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUarray>(address);
  return result;
}
QUIET CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* prop,
                           unsigned long long) {
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (freed_handle != 0) {
    *handle = freed_handle.exchange(0);
    return CUDA_SUCCESS;
  }
  return allocate(handle, size);
}
QUIET CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (auto* meanwhile = during_release.exchange(nullptr); meanwhile != nullptr) {
    freed_handle = handle;
    meanwhile();
  }
  return CUDA_SUCCESS;
}

#ifndef QUIET_DRIVER_OLD
QUIET CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream) { return allocate(out, bytes); }
// A distinct entry point: cuGetProcAddress may return an address that is not in the symbol table.
static CUresult free_without_symbol(CUdeviceptr address) { return cuMemFree_v2(address); }

QUIET CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  struct Row {
    const char* base;
    int version;
    void* function;
  };
  const auto as_pointer = [](auto* function) { return reinterpret_cast<void*>(function); };
  const Row rows[] = {
      {"cuInit", 2000, as_pointer(&cuInit)},
      {"cuMemAlloc", 2000, as_pointer(&cuMemAlloc)},
      {"cuMemAlloc", 3020, as_pointer(&cuMemAlloc_v2)},
      {"cuMemFree", 2000, as_pointer(&cuMemFree)},
      {"cuMemFree", 3020, as_pointer(&free_without_symbol)},
      {"cuMemFree", 14000, as_pointer(&cuMemAllocAsync)},  // a future ABI that we do not know
      {"cuCtxGetDevice", 2000, as_pointer(&cuCtxGetDevice)},
      {"cuMemAllocAsync", 11020, as_pointer(&cuMemAllocAsync)},
      {"cuGetProcAddress", 11030, as_pointer(&cuGetProcAddress)},
      {"cuGetProcAddress", 12000, as_pointer(&cuGetProcAddress_v2)},
      {"cuLaunchKernel", 4000, flags == 2 ? as_pointer(&cuLaunchKernel_ptsz) : as_pointer(&cuLaunchKernel)},
  };
  *out = nullptr;
  bool known = false;
  for (const Row& row : rows) {
    if (std::strcmp(row.base, symbol) != 0) continue;
    known = true;
    if (row.version <= version) *out = row.function;
  }
  const auto answer = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                      : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (status != nullptr) *status = answer;
  return CUDA_SUCCESS;
}
QUIET CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, out, version, flags, nullptr);
  return result == CUDA_SUCCESS && *out == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}
#endif
