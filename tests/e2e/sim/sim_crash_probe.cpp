// A program with a faulting kernel, or one that calls the driver after it is gone. Prints one line per result, so that
// two runs can be compared. At each "hold" it waits for a line.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "guest/abi/cuda.hpp"
#include "sim_wrong_calls.hpp"
#include "support/driver_call.hpp"

using namespace headgate::abi;

namespace {

constexpr unsigned kDeadlineSeconds = 30;

void say(const char* what, CUresult result) { std::printf("%s %u\n", what, static_cast<unsigned>(result)); }

// Whether the GPU is done by now is a race in every run.
CUresult at_work_or(CUresult result) { return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result; }

void hold(const char* where) {
  std::printf("hold %s\n", where);
  std::fflush(stdout);
  std::getchar();
}

struct Work {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction good = nullptr, bad = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0, asynchronous = 0;
};

std::string ptx(const std::string& fault) {
  return ".version 8.0\n.target sm_89\n.address_size 64\n"
         ".visible .entry good(.param .u32 us) { .pragma \"headgate.sim.us param0\"; ret; }\n"
         ".visible .entry bad(.param .u32 us) { .pragma \"headgate.sim.us param0\"; .pragma \"headgate.sim.fault " +
         fault + "\"; ret; }\n";
}

CUresult launch(const Work& work, CUfunction kernel, CUstream stream) {
  unsigned us = 300;
  void* parameters[] = {&us};
  return CALL(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, stream == nullptr ? work.stream : stream, parameters,
                              nullptr);
}

Work prepare(const std::string& fault, std::size_t bytes) {
  Work work;
  say("context", CALL(cuCtxCreate_v2)(&work.context, 0, 0));
  say("module", CALL(cuModuleLoadData)(&work.module, ptx(fault).c_str()));
  CALL(cuModuleGetFunction)(&work.good, work.module, "good");
  CALL(cuModuleGetFunction)(&work.bad, work.module, "bad");
  say("stream", CALL(cuStreamCreate)(&work.stream, CU_STREAM_NON_BLOCKING));
  say("event", CALL(cuEventCreate)(&work.event, 0));
  say("allocate", CALL(cuMemAlloc_v2)(&work.memory, bytes));
  for (int i = 0; i < 20; ++i) launch(work, work.good, nullptr);
  say("record", CALL(cuEventRecord)(work.event, work.stream));
  say("synchronize", CALL(cuCtxSynchronize)());
  return work;
}

void every_answer(const Work& work) {
  std::size_t free = 0, total = 0;
  CUdeviceptr more = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  unsigned word = 0;
  float ms = 0;
  say("allocate managed", CALL(cuMemAllocManaged)(&more, 1 << 20, 1));
  say("launch", launch(work, work.good, nullptr));
  say("launch on the default stream", launch(work, work.good, reinterpret_cast<CUstream>(1)));
  say("stream query", at_work_or(CALL(cuStreamQuery)(work.stream)));
  say("stream synchronize", CALL(cuStreamSynchronize)(work.stream));
  say("record", CALL(cuEventRecord)(work.event, work.stream));
  say("event query", at_work_or(CALL(cuEventQuery)(work.event)));
  say("event synchronize", CALL(cuEventSynchronize)(work.event));
  say("elapsed", CALL(cuEventElapsedTime)(&ms, work.event, work.event));
  say("wait", CALL(cuStreamWaitEvent)(work.stream, work.event, 0));
  say("allocate", CALL(cuMemAlloc_v2)(&more, 1 << 20));
  say("allocate too much", CALL(cuMemAlloc_v2)(&more, std::size_t{8} << 30));
  say("allocate in order", CALL(cuMemAllocAsync)(&more, 1 << 20, work.stream));
  say("memory", CALL(cuMemGetInfo_v2)(&free, &total));
  say("copy", CALL(cuMemcpyDtoH_v2)(&word, work.memory, sizeof word));
  say("fill", CALL(cuMemsetD32Async)(work.memory, 0, 1, work.stream));
  say("new stream", CALL(cuStreamCreate)(&stream, 0));
  say("new event", CALL(cuEventCreate)(&event, 0));
  say("new module", CALL(cuModuleLoadData)(&module, ptx("assert").c_str()));
  say("free", CALL(cuMemFree_v2)(work.memory));
  say("end of event", CALL(cuEventDestroy_v2)(work.event));
  say("end of stream", CALL(cuStreamDestroy_v2)(work.stream));
  say("end of module", CALL(cuModuleUnload)(work.module));
  say("synchronize", CALL(cuCtxSynchronize)());
}

int crash(const std::string& fault) {
  const Work other = prepare("assert", 10 << 20);
  const Work work = prepare(fault, 64 << 20);
  hold("before");
  say("bad launch", launch(work, work.bad, nullptr));
  const CUresult behind = CALL(cuMemsetD32Async)(work.memory, 1, 1, work.stream);
  const CUresult ended = CALL(cuCtxSynchronize)();
  // The kernel may have ended before the copy was submitted.
  say("copy behind it", behind == ended ? CUDA_SUCCESS : behind);
  say("synchronize", ended);
  every_answer(work);
  hold("faulted");
  say("current", CALL(cuCtxSetCurrent)(other.context));
  for (int i = 0; i < 20; ++i) launch(other, other.good, nullptr);
  say("the other context", CALL(cuCtxSynchronize)());
  say("end of context", CALL(cuCtxDestroy_v2)(work.context));
  hold("destroyed");
  CUcontext again = nullptr;
  say("another context", CALL(cuCtxCreate_v2)(&again, 0, 0));
  say("current", CALL(cuCtxSetCurrent)(other.context));
  every_answer(other);
  hold("healthy");
  return 0;
}

int in_child() {
  const Work work = prepare("assert", 10 << 20);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    say("init in the child", CALL(cuInit)(0));
    every_answer(work);
    CUcontext context = nullptr;
    say("new context", CALL(cuCtxCreate_v2)(&context, 0, 0));
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  every_answer(work);
  hold("healthy");
  return 0;
}

CUgreenCtx half_of_the_gpu() {
  using headgate::e2e::found;
  alignas(8) std::byte all[144], part[144];  // CUdevResource
  unsigned groups = 1;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  say("resource", found<CUresult(CUdevice, void*, unsigned)>("cuDeviceGetDevResource")(0, all, 1));
  say("split", found<CUresult(void*, unsigned*, const void*, void*, unsigned, unsigned)>("cuDevSmResourceSplitByCount")(
                   part, &groups, all, nullptr, 0, 8));
  say("description",
      found<CUresult(CUdevResourceDesc*, const void*, unsigned)>("cuDevResourceGenerateDesc")(&description, part, 1));
  say("green context", CALL(cuGreenCtxCreate)(&green, description, 0, 1));
  return green;
}

void allocate(std::size_t bytes) {
  CUdeviceptr memory = 0;
  say("allocate", CALL(cuMemAlloc_v2)(&memory, bytes));
}

// Memory allocated in a green context belongs to the primary context, and is freed with it.
int in_green_contexts() {
  const CUgreenCtx first = half_of_the_gpu(), second = half_of_the_gpu();
  CUcontext view = nullptr, primary = nullptr;
  CUstream stream = nullptr;
  CUgreenCtx told = nullptr;
  say("its handle", CALL(cuCtxFromGreenCtx)(&view, first));
  say("current", CALL(cuCtxSetCurrent)(view));
  allocate(10 << 20);
  hold("allocated");
  say("stream", CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  say("its contexts", CALL(cuStreamGetCtx_v2)(stream, &primary, &told));
  say("the green one", told == first && primary != view ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  say("end", CALL(cuGreenCtxDestroy)(first));
  hold("the first has gone");
  say("use", CALL(cuStreamQuery)(stream));
  say("end again", CALL(cuGreenCtxDestroy)(first));
  say("its handle", CALL(cuCtxFromGreenCtx)(&view, second));
  say("current", CALL(cuCtxSetCurrent)(view));
  allocate(20 << 20);
  say("end", CALL(cuGreenCtxDestroy)(second));
  hold("the last has gone, and the primary context with it");
  const CUgreenCtx third = half_of_the_gpu();
  say("its handle", CALL(cuCtxFromGreenCtx)(&view, third));
  say("current", CALL(cuCtxSetCurrent)(view));
  allocate(30 << 20);
  say("reset", CALL(cuDevicePrimaryCtxReset_v2)(0));
  hold("reset");
  say("end", CALL(cuGreenCtxDestroy)(third));
  return 0;
}

// The process checkpoints and restores itself; in between it makes no other call.
int checkpointed() {
  const Work work = prepare("assert", 100 << 20);
  const int own = ::getpid();
  hold("before");
  say("lock", CALL(cuCheckpointProcessLock)(own, nullptr));
  say("checkpoint", CALL(cuCheckpointProcessCheckpoint)(own, nullptr));
  hold("checkpointed");
  say("restore", CALL(cuCheckpointProcessRestore)(own, nullptr));
  hold("restored");
  say("unlock", CALL(cuCheckpointProcessUnlock)(own, nullptr));
  every_answer(work);
  hold("healthy");
  return 0;
}

Work at_exit;

// Registered before cuInit, so it runs after the driver is gone.
void after_the_driver() {
  every_answer(at_exit);
  say("init", CALL(cuInit)(0));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  ::alarm(kDeadlineSeconds);
  const std::string what = count > 1 ? words[1] : "";
  if (what == "exit") std::atexit(after_the_driver);
  say("init", CALL(cuInit)(0));
  if (what == "fork") return in_child();
  if (what == "checkpoint") return checkpointed();
  if (what == "wrong") return headgate::e2e::wrong_calls();
  if (what == "green") return in_green_contexts();
  if (what != "exit") return crash(what);
  at_exit = prepare("assert", 10 << 20);
  return 0;
}
