#include "sim_wrong_calls.hpp"

#include <cstdio>

#include "guest/abi/cuda.hpp"
#include "support/driver_call.hpp"

using namespace headgate::abi;

namespace headgate::e2e {
namespace {

constexpr std::size_t kHuge = ~std::size_t{0}, kMiB = 1 << 20;
constexpr char kPtx[] =
    ".version 8.0\n.target sm_89\n.address_size 64\n"
    ".visible .entry us(.param .u32 us) { .pragma \"headgate.sim.us param0\"; ret; }\n";

// Readable memory that is no driver object.
alignas(64) char nothing[4096];
template <typename Handle>
Handle unknown() {
  return reinterpret_cast<Handle>(nothing);
}

int line = 0;
CUresult say(const char* call, CUresult answer) {
  std::printf("%d %s %u\n", ++line, call, static_cast<unsigned>(answer));
  return answer;
}
#define SAY(name, ...) say(#name, CALL(name)(__VA_ARGS__))

struct Prop {  // cuda.h: CUmemAllocationProp
  unsigned type = 1, handles = 0;
  std::uint32_t location[2] = {1, 0};  // device 0
  void* windows = nullptr;
  unsigned char flags[8] = {};
};

void memory() {
  CUdeviceptr made = 0;
  std::size_t pitch = 0;
  SAY(cuMemAlloc_v2, nullptr, kMiB);
  SAY(cuMemAlloc_v2, &made, 0);
  SAY(cuMemAlloc_v2, &made, kHuge);
  SAY(cuMemAlloc_v2, &made, kHuge / 2 + 3);
  SAY(cuMemAlloc_v2, &made, 7);
  SAY(cuMemFree_v2, made + 1);
  SAY(cuMemFree_v2, made);
  SAY(cuMemFree_v2, made);
  SAY(cuMemFree_v2, 0);
  SAY(cuMemFree_v2, reinterpret_cast<CUdeviceptr>(nothing));
  SAY(cuMemAllocPitch_v2, nullptr, &pitch, 1, 1, 4);
  SAY(cuMemAllocPitch_v2, &made, nullptr, 1, 1, 4);
  SAY(cuMemAllocPitch_v2, &made, &pitch, 0, 1, 4);
  SAY(cuMemAllocPitch_v2, &made, &pitch, 1, 0, 4);
  SAY(cuMemAllocPitch_v2, &made, &pitch, 1, 1, 3);
  SAY(cuMemAllocPitch_v2, &made, &pitch, kHuge, kHuge, 4);
  SAY(cuMemAllocManaged, nullptr, 1, 1);
  SAY(cuMemAllocManaged, &made, 0, 1);
  SAY(cuMemAllocManaged, &made, 1, 0);
  SAY(cuMemAllocManaged, &made, 1, 3);
  SAY(cuMemGetInfo_v2, nullptr, nullptr);
  SAY(cuDeviceTotalMem_v2, nullptr, 0);
  SAY(cuDeviceTotalMem_v2, &pitch, 99);
  SAY(cuDeviceTotalMem_v2, &pitch, -1);
}

void pools() {
  CUdeviceptr made = 0;
  CUmemoryPool pool = nullptr;
  CUmemPoolProps props{};
  SAY(cuMemAllocAsync, nullptr, 1, nullptr);
  SAY(cuMemAllocAsync, &made, 0, nullptr);
  SAY(cuMemAllocAsync, &made, kHuge, nullptr);
  SAY(cuMemAllocAsync, &made, 1, unknown<CUstream>());
  SAY(cuMemAllocAsync, &made, kMiB, nullptr);
  SAY(cuMemFreeAsync, made, unknown<CUstream>());
  SAY(cuMemFreeAsync, made, nullptr);
  SAY(cuMemFreeAsync, made, nullptr);
  SAY(cuMemFreeAsync, 0, nullptr);
  SAY(cuMemAllocFromPoolAsync, &made, 1, nullptr, nullptr);
  SAY(cuMemAllocFromPoolAsync, &made, 1, unknown<CUmemoryPool>(), nullptr);
  SAY(cuMemPoolCreate, nullptr, &props);
  SAY(cuMemPoolCreate, &pool, nullptr);
  SAY(cuMemPoolCreate, &pool, &props);
  SAY(cuMemPoolDestroy, unknown<CUmemoryPool>());
  SAY(cuMemPoolDestroy, nullptr);
  SAY(cuMemPoolTrimTo, unknown<CUmemoryPool>(), 0);
}

void mapped() {
  Prop prop;
  auto* good = reinterpret_cast<CUmemAllocationProp*>(&prop);
  CUmemGenericAllocationHandle handle = 0;
  SAY(cuMemCreate, nullptr, 2 * kMiB, good, 0);
  SAY(cuMemCreate, &handle, 2 * kMiB, nullptr, 0);
  SAY(cuMemCreate, &handle, 0, good, 0);
  SAY(cuMemCreate, &handle, kMiB + 1, good, 0);
  SAY(cuMemCreate, &handle, 2 * kMiB, good, 5);
  SAY(cuMemCreate, &handle, std::size_t{1} << 60, good, 0);
  SAY(cuMemCreate, &handle, 2 * kMiB, good, 0);
  SAY(cuMemMap, 0, 2 * kMiB, 0, handle, 0);
  SAY(cuMemMap, kMiB, kMiB, 0, handle, 0);
  SAY(cuMemUnmap, 0, 0);
  SAY(cuMemUnmap, 2 * kMiB, 2 * kMiB);
  SAY(cuMemRetainAllocationHandle, &handle, nothing);
  SAY(cuMemRelease, handle);
  SAY(cuMemRelease, handle);
  SAY(cuMemRelease, 0);
  SAY(cuIpcGetMemHandle, nullptr, 0);
  CUipcMemHandle ipc{};
  CUdeviceptr opened = 0;
  SAY(cuIpcGetMemHandle, &ipc, reinterpret_cast<CUdeviceptr>(nothing));
  SAY(cuIpcOpenMemHandle_v2, nullptr, ipc, 1);
  SAY(cuIpcOpenMemHandle_v2, &opened, ipc, 0);
  SAY(cuIpcOpenMemHandle_v2, &opened, ipc, 1);
  SAY(cuIpcCloseMemHandle, 0);
  SAY(cuImportExternalMemory, nullptr, nullptr);
  SAY(cuDestroyExternalMemory, nullptr);
  SAY(cuDestroyExternalMemory, unknown<CUexternalMemory>());
}

void arrays() {
  struct {
    std::size_t width = 0, height = 0;
    unsigned format = 0x20, channels = 1;
  } empty;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  SAY(cuArrayCreate_v2, nullptr, nullptr);
  SAY(cuArrayCreate_v2, &array, nullptr);
  SAY(cuArrayCreate_v2, &array, reinterpret_cast<CUDA_ARRAY_DESCRIPTOR*>(&empty));
  empty = {64, 64, 0x77, 1};
  SAY(cuArrayCreate_v2, &array, reinterpret_cast<CUDA_ARRAY_DESCRIPTOR*>(&empty));
  empty = {64, 64, 0x20, 3};
  SAY(cuArrayCreate_v2, &array, reinterpret_cast<CUDA_ARRAY_DESCRIPTOR*>(&empty));
  empty = {64, 64, 0x20, 4};
  SAY(cuArrayCreate_v2, &array, reinterpret_cast<CUDA_ARRAY_DESCRIPTOR*>(&empty));
  SAY(cuArrayDestroy, array);
  SAY(cuArrayDestroy, array);
  SAY(cuArrayDestroy, nullptr);
  SAY(cuArrayDestroy, unknown<CUarray>());
  SAY(cuArray3DCreate_v2, &array, nullptr);
  SAY(cuMipmappedArrayCreate, &mipmap, nullptr, 1);
  SAY(cuMipmappedArrayDestroy, unknown<CUmipmappedArray>());
}

void streams_and_events() {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  float ms = 0;
  SAY(cuStreamCreate, nullptr, 0);
  SAY(cuStreamCreate, &stream, 99);
  SAY(cuStreamCreate, &stream, 1);
  SAY(cuStreamDestroy_v2, stream);
  SAY(cuStreamDestroy_v2, stream);
  SAY(cuStreamSynchronize, stream);
  SAY(cuStreamQuery, unknown<CUstream>());
  SAY(cuStreamWaitEvent, nullptr, nullptr, 0);
  SAY(cuEventCreate, nullptr, 0);
  SAY(cuEventCreate, &event, 99);
  SAY(cuEventCreate, &event, 0);
  SAY(cuEventElapsedTime, &ms, event, event);
  SAY(cuEventElapsedTime, nullptr, event, event);
  SAY(cuEventRecord, event, unknown<CUstream>());
  SAY(cuEventRecord, nullptr, nullptr);
  SAY(cuEventDestroy_v2, event);
  SAY(cuEventDestroy_v2, event);
  SAY(cuEventQuery, event);
}

void launches(CUfunction us) {
  unsigned time = 1;
  void* good[] = {&time};
  void* holes[] = {nullptr};
  const auto launch = [](CUfunction function, unsigned grid, unsigned block, unsigned shared, CUstream stream,
                         void** parameters) {
    SAY(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, shared, stream, parameters, nullptr);
  };
  launch(nullptr, 1, 1, 0, nullptr, good);
  launch(unknown<CUfunction>(), 1, 1, 0, nullptr, good);
  launch(us, 0, 1, 0, nullptr, good);
  launch(us, 1, 0, 0, nullptr, good);
  launch(us, 1, 1025, 0, nullptr, good);
  launch(us, 1, 1, ~0u, nullptr, good);
  launch(us, 1, 1, 0, unknown<CUstream>(), good);
  launch(us, 1, 1, 0, nullptr, nullptr);
  launch(us, 1, 1, 0, nullptr, holes);
  launch(us, 1, 1, 0, nullptr, good);
  SAY(cuLaunchKernelEx, nullptr, us, good, nullptr);
  SAY(cuLaunchHostFunc, nullptr, nullptr, nullptr);
  SAY(cuGraphLaunch, nullptr, nullptr);
  SAY(cuGraphLaunch, unknown<CUgraphExec>(), nullptr);
  SAY(cuCtxSynchronize);
}

// Destroyed with work in flight; afterwards all its handles are invalid.
void contexts() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction us = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  SAY(cuCtxCreate_v2, nullptr, 0, 0);
  SAY(cuCtxCreate_v2, &context, 0, 99);
  SAY(cuCtxDestroy_v2, nullptr);
  SAY(cuCtxDestroy_v2, unknown<CUcontext>());
  SAY(cuCtxSetCurrent, unknown<CUcontext>());
  SAY(cuCtxCreate_v2, &context, 0, 0);
  SAY(cuModuleLoadData, &module, nullptr);
  SAY(cuModuleLoadData, &module, "no code");
  SAY(cuModuleLoadData, &module, kPtx);
  SAY(cuModuleGetFunction, &us, module, "absent");
  SAY(cuModuleGetFunction, &us, module, "us");
  SAY(cuStreamCreate, &stream, 1);
  SAY(cuMemAlloc_v2, &memory, 8 * kMiB);
  unsigned time = 3000;
  void* parameters[] = {&time};
  for (int i = 0; i < 10; ++i) SAY(cuLaunchKernel, us, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  SAY(cuCtxDestroy_v2, context);
  SAY(cuCtxDestroy_v2, context);
  SAY(cuStreamSynchronize, stream);
  SAY(cuLaunchKernel, us, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  SAY(cuCtxPushCurrent_v2, context);
  SAY(cuMemFree_v2, memory);
}

}  // namespace

int wrong_calls() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction us = nullptr;
  CUdeviceptr memory_without = 0;
  SAY(cuMemAlloc_v2, &memory_without, kMiB);
  SAY(cuMemAlloc_v2, &memory_without, kHuge);
  SAY(cuMemFree_v2, 1);
  SAY(cuCtxCreate_v2, &context, 0, 0);
  SAY(cuCtxSetCurrent, nullptr);
  SAY(cuMemAlloc_v2, &memory_without, kMiB);
  SAY(cuCtxSetCurrent, context);
  SAY(cuModuleLoadData, &module, kPtx);
  SAY(cuModuleGetFunction, &us, module, "us");
  memory();
  pools();
  mapped();
  arrays();
  streams_and_events();
  launches(us);
  contexts();
  std::printf("hold at the end\n");
  std::fflush(stdout);
  std::getchar();
  return 0;
}

}  // namespace headgate::e2e
