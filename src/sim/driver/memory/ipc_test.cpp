// Memory and events of one process used by another, through IPC handles; peers.
#include "sim/driver/memory/test_memory_sharing.hpp"
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

using test::Channel;
using test::hear;
using test::tell;

template <typename T>
void give(int socket, const T& what) {
  must(::write(socket, &what, sizeof what) == sizeof what, "given");
}
template <typename T>
T get(int socket) {
  T what;
  must(::read(socket, &what, sizeof what) == sizeof what, "got");
  return what;
}

std::uint64_t taken(const DeviceTruth& device) {
  std::uint64_t contexts = 0;
  for (const ProcessTruth& process : device.processes) contexts += process.context_bytes;
  return device.used_bytes - contexts;
}

unsigned word(Program& program, CUdeviceptr at) {
  unsigned value = 0;
  OK(program.cu.cuMemcpyDtoH_v2(&value, at, sizeof value));
  return value;
}
void fill(Program& program, CUdeviceptr at, unsigned value, std::size_t words) {
  OK(program.cu.cuMemsetD32_v2(at, value, words));
  OK(program.cu.cuCtxSynchronize());
}

using Ipc = Driver;

TEST_F(Ipc, AnAllocationIsSharedBothWaysUntilItIsFreed) {
  constexpr std::size_t kBytes = 5 << 20;
  Channel way;
  const pid_t exporter = start([&] {
    Program program;
    CUdeviceptr memory = 0;
    OK(program.cu.cuMemAlloc_v2(&memory, kBytes));
    fill(program, memory, 1, kBytes / 4);
    CUipcMemHandle handle, again;
    OK(program.cu.cuIpcGetMemHandle(&handle, memory));
    OK(program.cu.cuIpcGetMemHandle(&again, memory));
    must(std::memcmp(&handle, &again, sizeof handle) == 0, "one allocation, one handle");
    must(word(program, memory + kBytes - 4) == 1, "its contents stay");
    CUdeviceptr own = 0;
    must(program.cu.cuIpcOpenMemHandle_v2(&own, handle, 1) == CUDA_ERROR_INVALID_CONTEXT, "not in its own process");
    give(way.ends[0], handle);
    must(hear(way.ends[0]) == 'w', "written");
    must(word(program, memory) == 2, "what the other wrote");
    OK(program.cu.cuMemFree_v2(memory));
    must(taken(truth()) == kBytes, "the other keeps it");
    tell(way.ends[0], 'f');
    must(hear(way.ends[0]) == 'c', "closed");
    must(taken(truth()) == 0, "gone");
  });
  const int importer = run([&] {
    Program program;
    const auto handle = get<CUipcMemHandle>(way.ends[1]);
    CUdeviceptr memory = 0, same = 0;
    must(program.cu.cuIpcOpenMemHandle_v2(&memory, handle, 0) == CUDA_ERROR_INVALID_VALUE, "flags");
    must(program.cu.cuIpcOpenMemHandle_v2(&memory, {}, 1) == CUDA_ERROR_INVALID_VALUE, "no handle");
    OK(program.cu.cuIpcOpenMemHandle_v2(&memory, handle, 1));
    OK(program.cu.cuIpcOpenMemHandle_v2(&same, handle, 1));
    must(memory == same, "one opening");
    must(word(program, memory + kBytes - 4) == 1, "the exporter's bytes");
    fill(program, memory, 2, 1);
    must(program.cu.cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE, "not cuMemFree's");
    OK(program.cu.cuIpcCloseMemHandle(same));
    tell(way.ends[1], 'w');
    must(hear(way.ends[1]) == 'f', "freed there");
    must(word(program, memory) == 2, "still here");
    CUdeviceptr late = 0;
    must(program.cu.cuIpcOpenMemHandle_v2(&late, handle, 1) == CUDA_ERROR_INVALID_HANDLE, "its maker freed it");
    OK(program.cu.cuIpcCloseMemHandle(memory));
    must(program.cu.cuIpcCloseMemHandle(memory) == CUDA_ERROR_INVALID_VALUE, "closed twice");
    tell(way.ends[1], 'c');
  });
  EXPECT_EQ(importer, 0);
  EXPECT_EQ(finish(exporter), 0);
}

TEST_F(Ipc, SmallNeighboursKeepTheirBytesWhenOneIsFreed) {
  ASSERT_EQ(run([&] {
              Program program;
              CUdeviceptr small[16] = {};
              for (unsigned i = 0; i < 16; ++i) {
                OK(program.cu.cuMemAlloc_v2(&small[i], 600));
                fill(program, small[i], i + 1, 150);
              }
              const std::uint64_t all = taken(truth());
              CUipcMemHandle handle;
              OK(program.cu.cuIpcGetMemHandle(&handle, small[3]));
              OK(program.cu.cuIpcGetMemHandle(&handle, small[4]));
              must(taken(truth()) == all, "no byte more");
              OK(program.cu.cuMemFree_v2(small[3]));
              OK(program.cu.cuMemFree_v2(small[4]));
              for (unsigned i = 0; i < 16; ++i) {
                if (i == 3 || i == 4) continue;
                must(word(program, small[i] + 596) == i + 1, "a neighbour's bytes");
                OK(program.cu.cuMemFree_v2(small[i]));
              }
              must(taken(truth()) < all, "given back");
            }),
            0);
}

TEST_F(Ipc, AnEventIsSeenAcrossProcessesWithEarlierCopies) {
  constexpr std::uint64_t kFlag = 700;
  constexpr std::size_t kWords = 1 << 20;
  Channel way;
  const pid_t exporter = start([&] {
    Program program;
    const CUstream stream = program.stream();
    CUdeviceptr memory = 0, other = 0;
    CUevent event = nullptr, plain = nullptr;
    CUipcMemHandle shared;
    CUipcEventHandle handle;
    must(program.cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE, "with timing");
    OK(program.cu.cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    must(program.cu.cuIpcGetEventHandle(&handle, plain) == CUDA_ERROR_INVALID_HANDLE, "not made for it");
    OK(program.cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(program.cu.cuMemAlloc_v2(&memory, kWords * 4));
    OK(program.cu.cuMemAlloc_v2(&other, 4));
    OK(program.cu.cuIpcGetMemHandle(&shared, memory));
    OK(program.cu.cuIpcGetEventHandle(&handle, event));
    program.run_flag(program.spin, kFlag, stream);
    OK(program.cu.cuMemsetD32Async(memory, 77, kWords, stream));
    OK(program.cu.cuEventRecord(event, stream));
    give(way.ends[0], shared);
    give(way.ends[0], handle);
    // This process makes no driver call while the other waits.
    must(hear(way.ends[0]) == 'd', "done");
    OK(program.cu.cuEventDestroy_v2(event));
    tell(way.ends[0], 'g');
    (void)hear(way.ends[0]);
  });
  const int importer = run([&] {
    Program program;
    const auto shared = get<CUipcMemHandle>(way.ends[1]);
    const auto handle = get<CUipcEventHandle>(way.ends[1]);
    CUdeviceptr memory = 0;
    CUevent event = nullptr;
    OK(program.cu.cuIpcOpenMemHandle_v2(&memory, shared, 1));
    OK(program.cu.cuIpcOpenEventHandle(&event, handle));
    must(program.cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY, "the kernel spins");
    CUipcEventHandle onward;
    must(program.cu.cuIpcGetEventHandle(&onward, event) == CUDA_ERROR_INVALID_HANDLE, "not handed on");
    const CUstream stream = program.stream();
    program.run_flag(program.raise, kFlag, stream);
    OK(program.cu.cuEventSynchronize(event));
    must(word(program, memory + (kWords - 1) * 4) == 77, "what was filled before the event");
    tell(way.ends[1], 'd');
    must(hear(way.ends[1]) == 'g', "destroyed there");
    OK(program.cu.cuEventQuery(event));
    OK(program.cu.cuStreamWaitEvent(stream, event, 0));
    OK(program.cu.cuStreamSynchronize(stream));
    OK(program.cu.cuEventDestroy_v2(event));
    tell(way.ends[1], 'e');
  });
  EXPECT_EQ(importer, 0);
  EXPECT_EQ(finish(exporter), 0);
}

TEST_F(Ipc, AKernelSpinsOnAWordThatAnotherProcessSets) {
  Channel way;
  const pid_t exporter = start([&] {
    Program program;
    CUdeviceptr memory = 0;
    OK(program.cu.cuMemAlloc_v2(&memory, 4096));
    fill(program, memory, 0, 1024);
    CUipcMemHandle handle;
    OK(program.cu.cuIpcGetMemHandle(&handle, memory));
    give(way.ends[0], handle);
    const CUstream stream = program.stream();
    program.run_flag(program.spin, memory + 8, stream);
    OK(program.cu.cuStreamSynchronize(stream));
    tell(way.ends[0], 'd');
  });
  const int importer = run([&] {
    Program program;
    CUdeviceptr memory = 0;
    OK(program.cu.cuIpcOpenMemHandle_v2(&memory, get<CUipcMemHandle>(way.ends[1]), 1));
    program.run_flag(program.raise, memory + 8, program.stream());
    must(hear(way.ends[1]) == 'd', "met");
  });
  EXPECT_EQ(importer, 0);
  EXPECT_EQ(finish(exporter), 0);
}

TEST_F(Ipc, PeersAreEnabledOnceAndForgottenWithTheirContext) {
  Profile lab = *find_profile("h200");
  lab.count = 2;
  ASSERT_TRUE(create_node(directory_, lab));
  ASSERT_EQ(run([&] {
              Program program;
              CUcontext second = nullptr, twin = nullptr;
              OK(program.cu.cuCtxCreate_v2(&second, 0, 1));
              int can = 0;
              OK(program.cu.cuDeviceCanAccessPeer(&can, 0, 1));
              must(can == 1, "peers");
              OK(program.cu.cuCtxSetCurrent(program.context));
              must(program.cu.cuCtxDisablePeerAccess(second) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "not enabled");
              must(program.cu.cuCtxEnablePeerAccess(second, 1) == CUDA_ERROR_INVALID_VALUE, "flags");
              must(program.cu.cuCtxEnablePeerAccess(program.context, 0) == CUDA_ERROR_INVALID_CONTEXT, "itself");
              OK(program.cu.cuCtxEnablePeerAccess(second, 0));
              must(program.cu.cuCtxEnablePeerAccess(second, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "twice");
              OK(program.cu.cuCtxDisablePeerAccess(second));
              OK(program.cu.cuCtxEnablePeerAccess(second, 0));
              OK(program.cu.cuCtxDestroy_v2(second));
              must(program.cu.cuCtxEnablePeerAccess(second, 0) == CUDA_ERROR_INVALID_CONTEXT, "destroyed");
              OK(program.cu.cuCtxCreate_v2(&twin, 0, 0));
              must(program.cu.cuCtxEnablePeerAccess(program.context, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                   "one GPU");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
