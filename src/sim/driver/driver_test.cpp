// Programs reach the simulated driver by dlopen, each in a separate process.
#include "sim/driver/test_program.hpp"

#include <fstream>

namespace headgate::sim {
namespace {

TEST_F(Driver, CallsBeforeCuInitAndInAForkedChildFail) {
  EXPECT_EQ(run([] {
              Api cu = load();
              int count = 0;
              CUdeviceptr pointer = 0;
              must(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED, "cuDeviceGetCount before cuInit");
              must(cu.cuMemAlloc_v2(&pointer, 1) == CUDA_ERROR_NOT_INITIALIZED, "cuMemAlloc before cuInit");
              OK(cu.cuInit(0));
              const pid_t child = ::fork();
              if (child == 0) {
                const bool right = cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                                   cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
                ::_exit(right ? 0 : 1);
              }
              must(finish(child) == 0, "the forked child");
              OK(cu.cuDeviceGetCount(&count));
            }),
            0);
}

TEST_F(Driver, CopiesAndFillsMoveTheBytes) {
  EXPECT_EQ(run([] {
              Program p;
              std::vector<unsigned> out(300'000), in(300'000);
              std::iota(out.begin(), out.end(), 7u);
              CUdeviceptr a = 0, b = 0;
              const std::size_t bytes = out.size() * sizeof(unsigned);
              OK(p.cu.cuMemAlloc_v2(&a, bytes));
              OK(p.cu.cuMemAlloc_v2(&b, bytes));
              const CUstream stream = p.stream();
              OK(p.cu.cuMemcpyHtoDAsync_v2(a, out.data(), bytes, stream));
              std::vector<unsigned> kept = out;
              std::ranges::fill(out, 0u);  // pageable memory was staged at the call
              OK(p.cu.cuMemcpyDtoDAsync_v2(b, a, bytes, stream));
              OK(p.cu.cuMemsetD32Async(b, 5, 10, stream));
              OK(p.cu.cuMemcpyDtoHAsync_v2(in.data(), b, bytes, stream));
              OK(p.cu.cuStreamSynchronize(stream));
              std::fill_n(kept.begin(), 10, 5u);
              must(in == kept, "the bytes differ");
              must(p.cu.cuMemcpyDtoH_v2(in.data(), b, bytes + 1) == CUDA_ERROR_INVALID_VALUE, "a copy past the end");
              OK(p.cu.cuMemFree_v2(a));
              must(p.cu.cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE, "a second free");
            }),
            0);
}

TEST_F(Driver, AWaitForTheGpuCostsNoCpuTime) {
  EXPECT_EQ(run([] {
              Program p;
              const CUstream stream = p.stream();
              p.run_us(400'000, stream);
              timespec before{}, after{};
              ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
              OK(p.cu.cuStreamSynchronize(stream));
              ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
              const double used_ms = static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                                     static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e6;
              must(used_ms < 40, message("400 ms of GPU time took ", used_ms, " ms of CPU"));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).held_ns, 400'000'000u);
}

TEST_F(Driver, TwoProcessesShareTheDeviceAndTruthHasEachsPart) {
  const auto program = [] {
    Program p;
    const CUstream stream = p.stream();
    for (int i = 0; i < 50; ++i) p.run_us(1000, stream, 132);
    OK(p.cu.cuStreamSynchronize(stream));
  };
  const pid_t a = start(program), b = start(program);
  EXPECT_EQ(finish(a), 0);
  EXPECT_EQ(finish(b), 0);
  const DeviceTruth device = truth();
  ASSERT_EQ(device.processes.size(), 2u);
  for (const ProcessTruth& process : device.processes) {
    EXPECT_EQ(process.held_ns, 50'000'000u);
    EXPECT_EQ(process.sm_ns, 50e6);
    EXPECT_EQ(process.kernels, 50u);
    EXPECT_EQ(process.launches, 50u);
    EXPECT_EQ(process.history.between(0, ~0ull), 50'000'000u);
  }
  EXPECT_EQ(device.busy_ns, 100'000'000u);
  EXPECT_EQ(device.used_bytes, 0u);
}

TEST_F(Driver, SmallKernelsOfSeveralStreamsOverlap) {
  EXPECT_EQ(run([] {
              Program p;
              const CUstream gate = p.stream();
              CUevent open = nullptr;
              OK(p.cu.cuEventCreate(&open, CU_EVENT_DISABLE_TIMING));
              p.run_flag(p.spin, 3, gate);  // until all commands are queued
              OK(p.cu.cuEventRecord(open, gate));
              for (int i = 0; i < 4; ++i) {
                const CUstream stream = p.stream();
                OK(p.cu.cuStreamWaitEvent(stream, open, 0));
                p.run_us(20'000, stream, 8);
              }
              p.run_flag(p.raise, 3, p.stream());
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
  const ProcessTruth process = truth().processes.at(0);
  EXPECT_EQ(process.held_ns - process.spin_ns, 20'000'000u);
  EXPECT_EQ(process.kernels, 6u);
}

TEST_F(Driver, AFullQueueBlocksTheLaunchUntilTheGpuAdvances) {
  EXPECT_EQ(run([] {
              Program p;
              const CUstream stream = p.stream();
              std::atomic<int> launched{0};
              p.run_flag(p.spin, 1, stream);
              std::jthread launcher([&] {
                p.cu.cuCtxSetCurrent(p.context);
                for (int i = 0; i < 3000; ++i) {
                  p.run_us(1, stream);
                  ++launched;
                }
              });
              while (launched < 1023) ::usleep(100);
              must(launched == 1023, "the queue took more than it holds");
              // The blocked launch holds its context's lock, as in a driver, so another context sets the flag.
              CUcontext second = nullptr;
              CUmodule module = nullptr;
              CUfunction raise = nullptr;
              OK(p.cu.cuCtxCreate_v2(&second, 0, 0));
              OK(p.cu.cuModuleLoadData(&module, kPtx));
              OK(p.cu.cuModuleGetFunction(&raise, module, "raise"));
              p.run_flag(raise, 1, nullptr);
              launcher.join();
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 3002u);
}

TEST_F(Driver, KernelsThatSpinForEachOtherFinishAcrossProcesses) {
  const pid_t a = start([] {
    Program p;
    const CUstream stream = p.stream();
    p.run_flag(p.spin, 10, stream);
    p.run_flag(p.raise, 11, stream);
    OK(p.cu.cuStreamSynchronize(stream));
  });
  const pid_t b = start([] {
    Program p;
    const CUstream stream = p.stream();
    p.run_flag(p.raise, 10, stream);
    p.run_flag(p.spin, 11, stream);
    OK(p.cu.cuStreamSynchronize(stream));
  });
  EXPECT_EQ(finish(a), 0);
  EXPECT_EQ(finish(b), 0);
}

TEST_F(Driver, AWordInDeviceMemoryIsAFlagForKernelsAndCopies) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr word = 0;
              OK(p.cu.cuMemAlloc_v2(&word, 4));
              OK(p.cu.cuMemsetD32_v2(word, 0, 1));
              OK(p.cu.cuCtxSynchronize());
              const CUstream waits = p.stream(), sets = p.stream();
              p.run_flag(p.spin, word, waits);
              must(p.cu.cuStreamQuery(waits) == CUDA_ERROR_NOT_READY, "no stream has set the word");
              p.run_flag(p.raise, word, sets);
              OK(p.cu.cuStreamSynchronize(waits));
              unsigned value = 0;
              OK(p.cu.cuMemcpyDtoH_v2(&value, word, 4));
              must(value == 1, "the word was not written");
              OK(p.cu.cuMemsetD32_v2(word, 0, 1));
              OK(p.cu.cuCtxSynchronize());
              p.run_flag(p.spin, word, waits);
              must(p.cu.cuStreamQuery(waits) == CUDA_ERROR_NOT_READY, "the word was cleared");
              value = 9;
              OK(p.cu.cuMemcpyHtoDAsync_v2(word, &value, 4, sets));
              OK(p.cu.cuStreamSynchronize(waits));
            }),
            0);
}

TEST_F(Driver, AnEarlierFillNeverOverwritesAWordThatAKernelSets) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr first = 0;
              OK(p.cu.cuMemAlloc_v2(&first, 8));
              OK(p.cu.cuMemsetD8_v2(first, 0, 8));
              const CUdeviceptr second = first + 4;
              const CUstream one = p.stream(), two = p.stream();
              p.run_flag(p.raise, first, one);
              p.run_flag(p.spin, second, one);
              p.run_flag(p.raise, second, two);
              p.run_flag(p.spin, first, two);
              OK(p.cu.cuStreamSynchronize(one));
              OK(p.cu.cuStreamSynchronize(two));
            }),
            0);
}

TEST_F(Driver, EventsMeasureTheGpuAndBelongToTheirContext) {
  EXPECT_EQ(
      run([] {
        Program p;
        const CUstream stream = p.stream();
        CUevent start = nullptr, end = nullptr, untimed = nullptr;
        OK(p.cu.cuEventCreate(&start, 0));
        OK(p.cu.cuEventCreate(&end, 0));
        OK(p.cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
        p.run_flag(p.spin, 1, stream);  // the queue is loaded, so the pair sees no host latency
        OK(p.cu.cuEventRecord(start, stream));
        p.run_us(10'000, stream);
        OK(p.cu.cuEventRecord(end, stream));
        p.run_flag(p.raise, 1, p.stream());
        float ms = 0;
        must(p.cu.cuEventElapsedTime(&ms, start, untimed) == CUDA_ERROR_INVALID_HANDLE, "an untimed event has no time");
        OK(p.cu.cuEventSynchronize(end));
        OK(p.cu.cuEventElapsedTime(&ms, start, end));
        must(ms > 9.999f && ms < 10.001f, message("10 ms took ", ms));
        CUcontext second = nullptr;
        CUstream foreign = nullptr;
        OK(p.cu.cuCtxCreate_v2(&second, 0, 0));
        OK(p.cu.cuStreamCreate(&foreign, 0));
        must(p.cu.cuEventRecord(start, foreign) == CUDA_ERROR_INVALID_HANDLE, "an event of another context");
        must(p.cu.cuLaunchKernel(p.spin, 1, 1, 1, 1, 1, 1, 0, foreign, nullptr, nullptr) == CUDA_ERROR_INVALID_HANDLE,
             "a kernel of another context");
        OK(p.cu.cuEventDestroy_v2(end));
        must(p.cu.cuEventQuery(end) == CUDA_ERROR_INVALID_HANDLE, "a destroyed event");
        OK(p.cu.cuCtxDestroy_v2(second));
        must(p.cu.cuStreamQuery(foreign) == CUDA_ERROR_INVALID_HANDLE, "a stream of a dead context");
      }),
      0);
}

TEST_F(Driver, AHostFunctionRunsInStreamOrder) {
  EXPECT_EQ(run([] {
              Program p;
              const CUstream stream = p.stream();
              CUdeviceptr word = 0;
              void* host = nullptr;
              OK(p.cu.cuMemAlloc_v2(&word, 4));
              OK(p.cu.cuMemHostAlloc(&host, 8, 0));
              OK(p.cu.cuMemsetD32Async(word, 77, 1, stream));
              OK(p.cu.cuMemcpyDtoHAsync_v2(host, word, 4, stream));
              OK(p.cu.cuLaunchHostFunc(
                  stream, [](void* at) { static_cast<unsigned*>(at)[1] = static_cast<unsigned*>(at)[0] + 1; }, host));
              OK(p.cu.cuStreamSynchronize(stream));
              must(static_cast<unsigned*>(host)[1] == 78, "the host function saw old bytes");
            }),
            0);
}

TEST_F(Driver, AFullCardRefusesUntilItsHolderDies) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = start([&] {
    Program p;
    std::size_t free = 0, total = 0;
    OK(p.cu.cuMemGetInfo_v2(&free, &total));
    CUdeviceptr all = 0;
    must(p.cu.cuMemAlloc_v2(&all, free + 1) == CUDA_ERROR_OUT_OF_MEMORY, "one byte too many");
    OK(p.cu.cuMemAlloc_v2(&all, free));
    must(::write(ready[1], "x", 1) == 1, "pipe");
    while (true) ::pause();
  });
  ::close(ready[1]);
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  EXPECT_EQ(run([] {
              Api cu = load();
              OK(cu.cuInit(0));
              CUcontext context = nullptr;
              must(cu.cuCtxCreate_v2(&context, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY, "a context on a full card");
            }),
            0);
  ::kill(holder, SIGKILL);
  finish(holder);
  EXPECT_EQ(run([] { Program p; }), 0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(Driver, ManyKillsLeaveNoBytesAndAWorkingNode) {
  const auto program = [] {
    Program p;
    while (true) {
      const CUstream stream = p.stream();
      CUdeviceptr memory = 0;
      OK(p.cu.cuMemAlloc_v2(&memory, 1 << 20));
      OK(p.cu.cuMemsetD8Async(memory, 1, 1 << 20, stream));
      for (int i = 0; i < 40; ++i) p.run_us(20, stream, 132);
      OK(p.cu.cuStreamSynchronize(stream));
      OK(p.cu.cuMemFree_v2(memory));
      OK(p.cu.cuStreamDestroy_v2(stream));
    }
  };
  unsigned seed = 12345;
  for (int round = 0; round < 25; ++round) {
    pid_t children[4];
    for (pid_t& child : children) child = start(program);
    for (const pid_t child : children) {
      ::usleep((seed = seed * 1664525u + 1013904223u) % 6000);
      ::kill(child, SIGKILL);
    }
    for (const pid_t child : children) ASSERT_TRUE(WIFSIGNALED(finish(child)));
  }
  EXPECT_EQ(run([] {
              Program p;
              p.run_us(100, nullptr);
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
  const DeviceTruth device = truth();
  EXPECT_EQ(device.used_bytes, 0u);
  for (const ProcessTruth& process : device.processes) {
    EXPECT_FALSE(process.alive);
    EXPECT_EQ(process.contexts, 0u);
  }
}

TEST_F(Driver, AnUnusableDirectoryIsOneLineAndAnError) {
  int lines[2];
  ASSERT_EQ(::pipe(lines), 0);
  const std::string bad = directory_ + "/file";
  std::ofstream(bad).close();
  const pid_t child = start([&] {
    ::dup2(lines[1], 2);
    ::setenv("HEADGATE_SIM_DIR", bad.c_str(), 1);
    must(load().cuInit(0) == CUDA_ERROR_OPERATING_SYSTEM, "cuInit");
  });
  EXPECT_EQ(finish(child), 0);
  ::close(lines[1]);
  char text[1000] = {};
  EXPECT_GT(::read(lines[0], text, sizeof text - 1), 0);
  ::close(lines[0]);
  EXPECT_EQ(std::count(text, text + std::strlen(text), '\n'), 1) << text;
  EXPECT_NE(std::strstr(text, bad.c_str()), nullptr) << text;
}

TEST_F(Driver, ProcAddressesFollowVersionAndDefaultStream) {
  EXPECT_EQ(run([] {
              Api cu = load();
              void* found = nullptr;
              CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
              const auto is = [&](const char* name, int version, cuuint64_t flags, auto* expected) {
                OK(cu.cuGetProcAddress_v2(name, &found, version, flags, &status));
                must(found == reinterpret_cast<void*>(expected), message(name, " at ", version));
                must(status == CU_GET_PROC_ADDRESS_SUCCESS, name);
              };
              constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
              is("cuMemAlloc", 12000, 0, cu.cuMemAlloc_v2);
              is("cuMemAlloc", 2000, 0, cu.cuMemAlloc);
              is("cuLaunchKernel", 12000, 0, cu.cuLaunchKernel);
              is("cuLaunchKernel", 12000, kPerThread, cu.cuLaunchKernel_ptsz);
              is("cuMemAlloc", 12000, kPerThread, cu.cuMemAlloc_v2);
              is("cuMemcpyHtoD", 12000, kPerThread, cu.cuMemcpyHtoD_v2_ptds);
              must(reinterpret_cast<void*>(cu.cuStreamDestroy) == reinterpret_cast<void*>(cu.cuStreamDestroy_v2),
                   "two names of one entry");
              OK(cu.cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, &status));
              must(found && found != reinterpret_cast<void*>(cu.cuMemFree_v2), "an entry that no symbol has");
              must(cu.cuGetProcAddress_v2("cuNoSuchThing", &found, 12000, 0, &status) == CUDA_ERROR_NOT_FOUND && !found,
                   "an unknown name");
              must(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "its status");
              must(cu.cuGetProcAddress_v2("cuLaunchKernelEx", &found, 11000, 0, &status) == CUDA_ERROR_NOT_FOUND,
                   "a name too new");
              must(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, "its status");
            }),
            0);
}

TEST_F(Driver, AnEntryWithoutASymbolDoesWhatItsNameSays) {
  EXPECT_EQ(run([] {
              Program p;
              void* found = nullptr;
              CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
              OK(p.cu.cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, &status));
              auto* const free = reinterpret_cast<cuMemFree_v2_t*>(found);
              CUdeviceptr address = 0;
              OK(p.cu.cuMemAlloc_v2(&address, 4096));
              OK(free(address));
              must(free(address) == CUDA_ERROR_INVALID_VALUE, "freed twice");
            }),
            0);
}

TEST_F(Driver, ABatchOfMemoryOperationsRunsInOrderOrFails) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr words_at = 0;
              OK(p.cu.cuMemAlloc_v2(&words_at, 4096));
              OK(p.cu.cuMemsetD8_v2(words_at, 0, 4096));
              const CUstream waiter = p.stream(), writer = p.stream();
              struct Operation {  // cuda.h: CUstreamBatchMemOpParams
                std::uint64_t type, address, value, flags, rest[2];
              };
              const auto batch = [&](CUstream stream, std::vector<Operation> all) {
                return p.cu.cuStreamBatchMemOp_v2(stream, static_cast<unsigned>(all.size()),
                                                  reinterpret_cast<CUstreamBatchMemOpParams*>(all.data()), 0);
              };
              // Waits for 7 in the first word, then writes a 64-bit value to the second.
              OK(batch(waiter, {{1, words_at, 7, 1, {}}, {6, 0, 0, 0, {}}, {5, words_at + 8, 1ULL << 40, 0, {}}}));
              OK(batch(writer, {{2, words_at, 6, 0, {}}}));
              OK(p.cu.cuStreamSynchronize(writer));
              must(p.cu.cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY, "6 is not 7");
              OK(batch(writer, {{2, words_at, 7, 0, {}}, {4, words_at + 8, 1ULL << 40, 1, {}}}));
              OK(p.cu.cuStreamSynchronize(writer));
              OK(p.cu.cuStreamSynchronize(waiter));
              cuuint64_t read[2] = {};
              OK(p.cu.cuMemcpyDtoH_v2(read, words_at, sizeof read));
              must(read[0] == 7 && read[1] == 1ULL << 40, message("memory holds ", read[0], " and ", read[1]));
              OK(p.cu.cuStreamBatchMemOp(writer, 0, nullptr, 0));
              must(batch(writer, {{2, words_at, 9, 0, {}}, {9, words_at, 0, 0, {}}}) == CUDA_ERROR_INVALID_VALUE, "9");
              must(batch(writer, {{3, 0, 0, 0, {}}}) == CUDA_ERROR_NOT_SUPPORTED, "flush");
              OK(p.cu.cuMemcpyDtoH_v2(read, words_at, sizeof read));
              must(read[0] == 7, "nothing of a bad batch was done");
            }),
            0);
}

TEST_F(Driver, StreamsWaitForWordsThatOtherStreamsWrite) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr words_at = 0;
              OK(p.cu.cuMemAlloc_v2(&words_at, 4096));
              OK(p.cu.cuMemsetD8_v2(words_at, 0, 4096));
              const CUstream waiter = p.stream(), writer = p.stream();
              OK(p.cu.cuStreamWaitValue32_v2(waiter, words_at, 3, 1));
              p.run_us(10, waiter);
              OK(p.cu.cuStreamWriteValue32_v2(writer, words_at, 2, 0));
              OK(p.cu.cuStreamSynchronize(writer));
              must(p.cu.cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY, "2 is not 3");
              OK(p.cu.cuStreamWriteValue32(writer, words_at, 3, 0));
              OK(p.cu.cuStreamSynchronize(waiter));
              // 64-bit operations, by other entry names: the wait compares the upper half, and memory holds the value.
              constexpr cuuint64_t kWide = 0x500000000;
              OK(p.cu.cuStreamWaitValue64_ptsz(waiter, words_at + 8, kWide, 0));
              OK(p.cu.cuStreamWriteValue64(writer, words_at + 8, 9, 0));
              OK(p.cu.cuStreamSynchronize(writer));
              must(p.cu.cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY, "9 is less");
              OK(p.cu.cuStreamWriteValue64_v2_ptsz(writer, words_at + 8, kWide, 0));
              OK(p.cu.cuStreamSynchronize(waiter));
              cuuint64_t read[2] = {};
              OK(p.cu.cuMemcpyDtoH_v2(read, words_at, sizeof read));
              must(read[0] == 3 && read[1] == kWide, message("memory holds ", read[0], " and ", read[1]));
              // A wait on all 64 bits sees a write to the upper half under another entry name, and sees a copy too.
              OK(p.cu.cuStreamWaitValue64(waiter, words_at + 8, 0x700000000, 1));
              OK(p.cu.cuStreamWriteValue64(writer, words_at + 8, 0, 0));
              OK(p.cu.cuStreamWriteValue32(writer, words_at + 12, 7, 0));
              OK(p.cu.cuStreamSynchronize(waiter));
              OK(p.cu.cuStreamWaitValue32(waiter, words_at + 64, 0x8000, 2));
              const unsigned mask = 0x8001;
              OK(p.cu.cuMemcpyHtoD_v2(words_at + 64, &mask, sizeof mask));
              OK(p.cu.cuStreamSynchronize(waiter));
              must(p.cu.cuStreamWaitValue32(waiter, words_at + 2, 0, 0) == CUDA_ERROR_INVALID_VALUE, "an odd address");
              must(p.cu.cuStreamWaitValue32(waiter, 8, 0, 0) == CUDA_ERROR_INVALID_VALUE, "no memory");
              must(p.cu.cuStreamWaitValue64(waiter, words_at, 0, 9) == CUDA_ERROR_INVALID_VALUE, "no such comparison");
              must(p.cu.cuStreamWaitValue32(waiter, words_at, 0, 1u << 30) == CUDA_ERROR_NOT_SUPPORTED, "flush");
            }),
            0);
}

TEST_F(Driver, AQueueOfTheProfilesLengthBlocksTheLaunch) {
  Profile profile = *find_profile("tiny");
  profile.launch_queue_depth = 4;
  ASSERT_TRUE(create_node(directory_, profile));
  EXPECT_EQ(run([] {
              Program p;
              const CUstream stream = p.stream(), other = p.stream();
              std::atomic<int> launched{0};
              p.run_flag(p.spin, 1, stream);
              p.run_us(1, other);
              std::jthread launcher([&] {
                p.cu.cuCtxSetCurrent(p.context);
                for (int i = 0; i < 20; ++i) {
                  p.run_us(1, stream);
                  ++launched;
                }
              });
              while (launched < 3) ::usleep(100);
              CUcontext second = nullptr;
              CUmodule module = nullptr;
              CUfunction raise = nullptr;
              OK(p.cu.cuCtxCreate_v2(&second, 0, 0));
              OK(p.cu.cuModuleLoadData(&module, kPtx));
              OK(p.cu.cuModuleGetFunction(&raise, module, "raise"));
              must(launched == 3, "the queue took more than it holds");
              p.run_flag(raise, 1, nullptr);
              launcher.join();
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 23u);
}

TEST_F(Driver, ACudaRuntimeProgramLearnsOnceWhyItCannotStart) {
  const auto said = [](const char* level) {
    int out[2];
    must(::pipe(out) == 0, "no pipe");
    const pid_t child = start([&] {
      if (level) ::setenv("HEADGATE_LOG", level, 1);
      else ::unsetenv("HEADGATE_LOG");
      ::dup2(out[1], STDERR_FILENO);
      Api cu = load();
      const CUuuid id{};
      const void* table = &id;
      must(cu.cuGetExportTable(&table, &id) == CUDA_ERROR_NOT_FOUND && !table, "a table is found");
      must(cu.cuGetExportTable(&table, &id) == CUDA_ERROR_NOT_FOUND, "the second time");
    });
    ::close(out[1]);
    std::string text;
    char bytes[512];
    for (ssize_t got = 0; (got = ::read(out[0], bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
    ::close(out[0]);
    EXPECT_EQ(finish(child), 0);
    return text;
  };
  const std::string text = said(nullptr);
  EXPECT_NE(text.find("CUDA runtime"), std::string::npos) << text;
  EXPECT_NE(text.find("driver API"), std::string::npos) << "it must say what to do instead: " << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_EQ(said("off"), "");
}

TEST_F(Driver, CudaVisibleDevicesSelectsByNumberAndUuid) {
  Profile two = *find_profile("l40s-x2");
  two.node_seed = 77;
  ASSERT_TRUE(create_node(directory_, two));
  const auto counts = [&](const std::string& value, int expected, std::uint32_t first) {
    return run([&] {
      ::setenv("CUDA_VISIBLE_DEVICES", value.c_str(), 1);
      Api cu = load();
      const CUresult result = cu.cuInit(0);
      if (expected == 0) return must(result == CUDA_ERROR_NO_DEVICE, "cuInit with nothing visible");
      int count = 0;
      CUuuid uuid;
      OK(result);
      OK(cu.cuDeviceGetCount(&count));
      OK(cu.cuDeviceGetUuid_v2(&uuid, 0));
      must(count == expected, message(value, " shows ", count));
      must(std::memcmp(uuid.bytes, uuid_bytes(two, first).data(), 16) == 0, "another device comes first");
    });
  };
  EXPECT_EQ(counts("1", 1, 1), 0);
  EXPECT_EQ(counts("1,0", 2, 1), 0);
  EXPECT_EQ(counts(uuid_text(two, 1).data(), 1, 1), 0);
  EXPECT_EQ(counts("0,nonsense,1", 1, 0), 0);
  EXPECT_EQ(counts("", 0, 0), 0);
}

}  // namespace
}  // namespace headgate::sim
