// A program that makes only typical calls and prints its results line by line, so that two runs can be compared. It
// records no events and queries no streams, so every event, query and lookup that reaches the driver comes from the
// limiter.
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guest/abi/cuda.hpp"
#include "support/driver_call.hpp"

using namespace headgate::abi;

namespace {

constexpr int kLaunches = 40;
constexpr unsigned kDeadlineSeconds = 20;  // then SIGALRM: a hang fails the test
constexpr char kPtx[] = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry brief(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
)";

CUresult say(const char* what, CUresult result) {
  std::printf("%s %u\n", what, static_cast<unsigned>(result));
  return result;
}

// Launches with the same result are printed as one line. With PROBE_UNTIL_REFUSED goes on until one fails: a launch
// passes until the limiter's thread has found that it cannot measure.
CUresult launch_all(CUfunction kernel, CUstream stream) {
  unsigned us = 200;
  void* parameters[] = {&us};
  CUresult worst = CUDA_SUCCESS;
  const bool until_refused = std::getenv("PROBE_UNTIL_REFUSED") != nullptr;
  for (int i = 0; i < kLaunches || (until_refused && worst == CUDA_SUCCESS); ++i) {
    const CUresult one = CALL(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
    if (one != CUDA_SUCCESS) worst = one;
  }
  return worst;
}

// Alternates between some work and idling until the input ends.
void idle_often(CUfunction kernel, CUstream stream) {
  std::printf("idle\n");
  std::fflush(stdout);
  unsigned us = 20;
  void* parameters[] = {&us};
  pollfd input{STDIN_FILENO, POLLIN, 0};
  do {
    for (int i = 0; i < 3; ++i) CALL(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  } while (::poll(&input, 1, 20) == 0);
}

// Allocations that are freed again, or that exceed the share's 1 GiB.
int allocate_often(const char* rounds, bool refused) {
  auto* const allocate = CALL(cuMemAlloc_v2);
  auto* const release = CALL(cuMemFree_v2);
  int expected = 0;
  for (int i = 0; i < std::atoi(rounds); ++i) {
    CUdeviceptr memory = 0;
    const CUresult result = allocate(&memory, refused ? 3ULL << 29 : 1 << 20);
    expected += result == (refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    if (result == CUDA_SUCCESS) release(memory);
  }
  std::printf("as expected: %d\n", expected);
  return 0;
}

int work() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr, brief = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  if (say("init", CALL(cuInit)(0)) != CUDA_SUCCESS) return 0;
  if (say("context", CALL(cuCtxCreate_v2)(&context, 0, 0)) != CUDA_SUCCESS) return 0;
  if (const char* rounds = std::getenv("PROBE_PAIRS")) return allocate_often(rounds, false);
  if (const char* rounds = std::getenv("PROBE_REFUSALS")) return allocate_often(rounds, true);
  say("module", CALL(cuModuleLoadData)(&module, kPtx));
  say("kernel", CALL(cuModuleGetFunction)(&kernel, module, "us"));
  say("brief kernel", CALL(cuModuleGetFunction)(&brief, module, "brief"));
  say("stream", CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  say("allocate", CALL(cuMemAlloc_v2)(&memory, 64 << 20));
  say("launches", launch_all(kernel, stream));
  if (std::getenv("PROBE_IDLE") != nullptr) idle_often(brief, stream);
  say("synchronize", CALL(cuStreamSynchronize)(stream));
  say("launches on the default stream", launch_all(kernel, nullptr));
  unsigned there[64] = {}, back[64];
  std::memset(back, 0xff, sizeof back);
  say("copy in", CALL(cuMemcpyHtoD_v2)(memory, there, sizeof there));
  say("copy out", CALL(cuMemcpyDtoH_v2)(back, memory, sizeof back));
  say("bytes", std::memcmp(there, back, sizeof back) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  say("synchronize all", CALL(cuCtxSynchronize)());
  if (std::getenv("PROBE_WAIT") != nullptr) {
    std::printf("at work\n");
    std::fflush(stdout);
    std::getchar();
    say("launches after", launch_all(kernel, stream));
    say("synchronize after", CALL(cuStreamSynchronize)(stream));
  }
  say("free", CALL(cuMemFree_v2)(memory));
  say("end of stream", CALL(cuStreamDestroy_v2)(stream));
  say("end of module", CALL(cuModuleUnload)(module));
  say("end of context", CALL(cuCtxDestroy_v2)(context));
  say("primary context", CALL(cuDevicePrimaryCtxRetain)(&context, 0));
  say("end of primary context", CALL(cuDevicePrimaryCtxRelease_v2)(0));
  return 0;
}

}  // namespace

int main() {
  ::alarm(kDeadlineSeconds);
  const int status = work();
  std::printf("end\n");
  std::fflush(stdout);
  if (std::getenv("PROBE_WAIT") != nullptr) std::getchar();
  return status;
}
