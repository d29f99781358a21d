// Prints process state that the limiter must not change: before the driver is used, during and after.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "support/driver_call.hpp"

using namespace headgate::abi;

extern char** environ;

namespace {

std::uint64_t mixed(std::uint64_t sum, const char* text) {
  for (; *text != '\0'; ++text) sum = (sum ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return sum;
}

void handle(int) {}

void show(const char* when) {
  std::printf("%s: handlers", when);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0) continue;  // reserved by the C library
    if (action.sa_handler == SIG_DFL) continue;
    std::printf(" %d:%s", signal,
                action.sa_handler == SIG_IGN   ? "ignored"
                : action.sa_handler == &handle ? "the program's"
                                               : "FOREIGN");
  }
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  std::printf(", blocked");
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (::sigismember(&blocked, signal) == 1) std::printf(" %d", signal);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  char folder[PATH_MAX] = {};
  std::uint64_t environment = 0, limits = 0;
  for (char** each = environ; *each != nullptr; ++each) environment = mixed(environment, *each);
  static const std::uint64_t first = environment;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    rlimit limit{};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    limits = limits * 31 + limit.rlim_cur;
  }
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  std::printf(
      ", umask %o, folder %s, environment %s, limits %llx, slack %d, nice %d, policy %d, dumpable %d, name %s\n",
      static_cast<unsigned>(mask), ::getcwd(folder, sizeof folder), environment == first ? "kept" : "CHANGED",
      static_cast<unsigned long long>(limits), ::prctl(PR_GET_TIMERSLACK), ::getpriority(PRIO_PROCESS, 0),
      ::sched_getscheduler(0), ::prctl(PR_GET_DUMPABLE), name);
}

constexpr char kKernel[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .entry work()
{
  .pragma "headgate.sim.us 300";
  ret;
}
)";

}  // namespace

int main() {
  // Like a Java VM or Python: installs signal handlers before any driver is loaded.
  for (const int signal : {SIGUSR1, SIGUSR2, SIGSEGV, SIGTERM}) ::signal(signal, &handle);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(027);
  ::prctl(PR_SET_TIMERSLACK, 12'345UL, 0UL, 0UL, 0UL);
  show("before");
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr kept = 0, refused = 0, pooled = 0;
  const CUresult results[] = {CALL(cuInit)(0),
                              CALL(cuDevicePrimaryCtxRetain)(&context, 0),
                              CALL(cuCtxSetCurrent)(context),
                              CALL(cuModuleLoadData)(&module, kKernel),
                              CALL(cuModuleGetFunction)(&function, module, "work"),
                              CALL(cuStreamCreate)(&stream, 1),
                              CALL(cuMemAlloc_v2)(&kept, 1 << 20),
                              CALL(cuMemAllocAsync)(&pooled, 1 << 20, stream)};
  std::printf("answers");
  for (const CUresult result : results) std::printf(" %u", result);
  // Uses more than its part of a second, so the gate blocks it.
  unsigned failed = 0;
  for (int i = 0; i < 500; ++i) {
    failed += CALL(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) != CUDA_SUCCESS;
  }
  failed += CALL(cuStreamSynchronize)(stream) != CUDA_SUCCESS;
  std::printf(", %u failed\n", failed);
  show("amidst");
  // Without the limiter the allocation succeeds.
  if (CALL(cuMemAlloc_v2)(&refused, 4ull << 30) == CUDA_SUCCESS) CALL(cuMemFree_v2)(refused);
  CALL(cuMemFreeAsync)(pooled, stream);
  CALL(cuMemFree_v2)(kept);
  CALL(cuStreamDestroy_v2)(stream);
  CALL(cuDevicePrimaryCtxRelease_v2)(0);
  show("after");
  return 0;
}
