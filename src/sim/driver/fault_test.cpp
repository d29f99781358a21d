// How kernels end contexts, and what else of a program keeps working.
#include <chrono>

#include "sim/driver/test_program.hpp"
#include "sim/faults.hpp"
#include "sim/kernel_faults.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

std::string faulty_ptx(std::string_view fault) {
  return message(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry bad(.param .u32 bad_0) { .pragma "headgate.sim.us param0"; .pragma "headgate.sim.fault )",
                 fault, "\"; ret; }\n");
}

void is(CUresult result, CUresult wanted, const std::string& what) {
  must(result == wanted, message(what, " answered ", static_cast<unsigned>(result)));
}

// Ends the program's current context; returns the result of the first synchronise.
CUresult crash(Program& p, std::string_view fault, unsigned us = 10) {
  CUmodule module = nullptr;
  CUfunction bad = nullptr;
  OK(p.cu.cuModuleLoadData(&module, faulty_ptx(fault).c_str()));
  OK(p.cu.cuModuleGetFunction(&bad, module, "bad"));
  void* parameters[] = {&us};
  OK(p.cu.cuLaunchKernel(bad, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  return p.cu.cuCtxSynchronize();
}

void expect_dead(Program& p, CUstream stream, CUevent event, CUdeviceptr memory, CUresult error) {
  std::size_t free = 0;
  CUdeviceptr more = 0;
  CUevent made = nullptr;
  CUmodule module = nullptr;
  float ms = 0;
  unsigned us = 1;
  void* parameters[] = {&us};
  is(p.cu.cuStreamSynchronize(stream), error, "cuStreamSynchronize");
  is(p.cu.cuStreamQuery(stream), error, "cuStreamQuery");
  is(p.cu.cuEventRecord(event, stream), error, "cuEventRecord");
  is(p.cu.cuEventQuery(event), error, "cuEventQuery");
  is(p.cu.cuEventSynchronize(event), error, "cuEventSynchronize");
  is(p.cu.cuEventElapsedTime(&ms, event, event), error, "cuEventElapsedTime");
  is(p.cu.cuLaunchKernel(p.us, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr), error, "cuLaunchKernel");
  is(p.cu.cuMemAlloc_v2(&more, 1), error, "cuMemAlloc");
  is(p.cu.cuMemGetInfo_v2(&free, &free), error, "cuMemGetInfo");
  is(p.cu.cuMemcpyDtoH_v2(&free, memory, 4), error, "cuMemcpyDtoH");
  is(p.cu.cuEventCreate(&made, 0), error, "cuEventCreate");
  is(p.cu.cuModuleLoadData(&module, kPtx), error, "cuModuleLoadData");
  is(p.cu.cuModuleUnload(p.module), error, "cuModuleUnload");
  is(p.cu.cuMemFree_v2(memory), error, "cuMemFree");
  is(p.cu.cuEventDestroy_v2(event), error, "cuEventDestroy");
  is(p.cu.cuStreamDestroy_v2(stream), error, "cuStreamDestroy");
}

class KernelFaults : public Driver {
 protected:
  void make(std::uint64_t watchdog_ns) {
    Profile profile = *find_profile("tiny");
    profile.watchdog_ns = watchdog_ns;
    const auto made = create_node(directory_, profile);
    ASSERT_TRUE(made) << made.error().message;
  }
};

TEST_F(KernelFaults, EveryLaterCallOfTheContextReportsTheFault) {
  make(0);
  for (const KernelFault& fault : kKernelFaults) {
    SCOPED_TRACE(fault.name);
    EXPECT_EQ(run([&] {
                Program p;
                CUstream stream = p.stream();
                CUevent event = nullptr;
                CUdeviceptr memory = 0;
                OK(p.cu.cuEventCreate(&event, 0));
                OK(p.cu.cuEventRecord(event, stream));
                OK(p.cu.cuMemAlloc_v2(&memory, 4096));
                const auto error = static_cast<CUresult>(fault.error);
                is(crash(p, fault.name), error, "cuCtxSynchronize");
                expect_dead(p, stream, event, memory, error);
              }),
              0);
  }
}

TEST_F(KernelFaults, OtherContextsContinueAndTheMemoryReturns) {
  make(0);
  EXPECT_EQ(run([this] {
              Program other, p;
              CUstream stream = nullptr;
              CUevent never = nullptr;
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, 100 << 20));
              OK(p.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
              OK(p.cu.cuEventCreate(&never, 0));
              p.run_flag(p.spin, 7, stream);  // never set
              OK(p.cu.cuEventRecord(never, stream));
              OK(p.cu.cuCtxPushCurrent_v2(other.context));
              CUstream elsewhere = other.stream();
              OK(p.cu.cuStreamWaitEvent(elsewhere, never, 0));
              OK(p.cu.cuCtxPopCurrent_v2(nullptr));
              is(crash(p, "illegal_address"), CUDA_ERROR_ILLEGAL_ADDRESS, "cuCtxSynchronize");
              OK(p.cu.cuCtxPushCurrent_v2(other.context));
              other.run_us(10, elsewhere);
              OK(p.cu.cuStreamSynchronize(elsewhere));
              OK(p.cu.cuCtxPopCurrent_v2(nullptr));
              must(truth().processes.at(0).bytes == 100 << 20, "memory stays until the context goes");
              OK(p.cu.cuCtxDestroy_v2(p.context));
              must(truth().processes.at(0).bytes == 0, "and comes back with it");
              CUcontext again = nullptr;
              is(p.cu.cuCtxCreate_v2(&again, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS, "a context after it");
              other.run_us(10, elsewhere);
              OK(p.cu.cuStreamSynchronize(elsewhere));
              must(run([] {
                     Program neighbour;
                     neighbour.run_us(1, nullptr);
                     OK(neighbour.cu.cuCtxSynchronize());
                   }) == 256,
                   "a forked child has no driver");
            }),
            0);
  EXPECT_EQ(run([] {
              Program p;
              p.run_us(1, nullptr);
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(KernelFaults, AResetHealsOnlyAnAssertion) {
  make(0);
  const auto primary = [](std::string_view fault, CUresult after) {
    Program p;
    CUcontext context = nullptr;
    OK(p.cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(p.cu.cuCtxSetCurrent(context));
    const auto error = static_cast<CUresult>(kernel_fault(fault)->error);
    is(crash(p, fault), error, "cuCtxSynchronize");
    is(p.cu.cuCtxSynchronize(), error, "again");
    OK(p.cu.cuDevicePrimaryCtxReset_v2(0));
    is(p.cu.cuDevicePrimaryCtxRetain(&context, 0), after, "the context after the reset");
    if (after != CUDA_SUCCESS) return;
    OK(p.cu.cuCtxSetCurrent(context));
    CUdeviceptr memory = 0;
    OK(p.cu.cuMemAlloc_v2(&memory, 1));
    OK(p.cu.cuCtxSynchronize());
  };
  EXPECT_EQ(run([&] { primary("assert", CUDA_SUCCESS); }), 0);
  EXPECT_EQ(run([&] { primary("misaligned_address", static_cast<CUresult>(716)); }), 0);
}

TEST_F(KernelFaults, WorkQueuedBehindTheFaultNeverRuns) {
  make(0);
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, 4));
              OK(p.cu.cuMemsetD32_v2(memory, 1, 1));
              CUmodule module = nullptr;
              CUfunction bad = nullptr;
              OK(p.cu.cuModuleLoadData(&module, faulty_ptx("launch_failed").c_str()));
              OK(p.cu.cuModuleGetFunction(&bad, module, "bad"));
              unsigned us = 200'000;  // long enough to queue all below, even on a busy machine
              void* parameters[] = {&us};
              static std::atomic<int> called{0}, told{0};
              CUstream stream = p.stream();
              OK(p.cu.cuLaunchKernel(bad, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
              OK(p.cu.cuMemsetD32Async(memory, 2, 1, stream));
              OK(p.cu.cuLaunchHostFunc(stream, [](void*) { ++called; }, nullptr));
              OK(p.cu.cuStreamAddCallback(
                  stream, [](CUstream, CUresult status, void*) { told = static_cast<int>(status); }, nullptr, 0));
              is(p.cu.cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED, "cuStreamSynchronize");
              must(called == 0, "a host function is not called after an error");
              const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
              while (told == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();  // its thread
              must(told == CUDA_ERROR_LAUNCH_FAILED, message("a callback is told: ", told.load()));
              must(*reinterpret_cast<unsigned*>(memory) == 1, "the fill has not happened");
            }),
            0);
}

TEST_F(KernelFaults, AKernelOnForeignMemoryIsAnIllegalAddress) {
  make(0);
  EXPECT_EQ(run([] {
              Program p;
              p.run_flag(p.raise, 0x7000'0000'0000, nullptr);
              is(p.cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, "cuCtxSynchronize");
            }),
            0);
}

TEST_F(KernelFaults, TheWatchdogOfADisplayBoardEndsAnEndlessKernel) {
  make(30'000'000);
  EXPECT_EQ(run([] {
              Program p;
              int limited = 0;
              OK(p.cu.cuDeviceGetAttribute(&limited, static_cast<CUdevice_attribute>(17), 0));
              must(limited == 1, "the device says that it has one");
              p.run_us(20'000, nullptr);
              OK(p.cu.cuCtxSynchronize());
              p.run_flag(p.spin, 9, nullptr);
              is(p.cu.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT, "cuCtxSynchronize");
              is(p.cu.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT, "again");
            }),
            0);
}

TEST_F(KernelFaults, ARuleEndsTheContextOfTheCaller) {
  make(0);
  ASSERT_TRUE(write_faults(directory_, "cuMemAlloc_v2:sticky=214:after=1"));
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, 1));
              is(p.cu.cuMemAlloc_v2(&memory, 1), static_cast<CUresult>(214), "cuMemAlloc");
              is(p.cu.cuCtxSynchronize(), static_cast<CUresult>(214), "cuCtxSynchronize");
            }),
            0);
}

TEST_F(KernelFaults, ADeviceLostUnderAKernelIsReportedInAllContexts) {
  make(0);
  EXPECT_EQ(run([this] {
              Program first, second;
              second.run_flag(second.spin, 9, nullptr);
              std::thread loses([this] { must(write_faults(directory_, "device0:lost").has_value(), "rules"); });
              is(second.cu.cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE, "under the kernel");
              loses.join();
              OK(second.cu.cuCtxSetCurrent(first.context));
              CUdeviceptr memory = 0;
              is(second.cu.cuMemAlloc_v2(&memory, 1), CUDA_ERROR_DEVICE_UNAVAILABLE, "the other context");
              CUcontext made = nullptr;
              is(second.cu.cuCtxCreate_v2(&made, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE, "a new one");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
