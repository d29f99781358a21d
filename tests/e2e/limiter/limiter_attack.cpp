// A program that uses the driver in ways that break careless accounting, one subcommand each. Prints driver results.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"
#include "limiter_race.hpp"

using namespace headgate::abi;

namespace {

template <typename Function>
Function* found(void* handle, const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (function == nullptr) {
    std::printf("no %s\n", name);
    std::exit(3);
  }
  return function;
}

struct Cuda {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  // clang-format off
#define USE(name) name##_t* name = found<name##_t>(handle, #name);  // NOLINT(bugprone-macro-parentheses): a name
  USE(cuInit)
  USE(cuCtxCreate_v2)
  USE(cuCtxDestroy_v2)
  USE(cuCtxSetCurrent)
  USE(cuCtxPushCurrent_v2)
  USE(cuCtxPopCurrent_v2)
  USE(cuDevicePrimaryCtxRetain)
  USE(cuDevicePrimaryCtxRelease_v2)
  USE(cuDevicePrimaryCtxReset_v2)
  USE(cuMemAlloc_v2)
  USE(cuMemFree_v2)
  USE(cuMemGetInfo_v2)
  USE(cuMemCreate)
  USE(cuMemRelease)
  USE(cuMemMap)
  USE(cuMemUnmap)
  USE(cuMemRetainAllocationHandle)
#undef USE
  // clang-format on
  CUcontext context = nullptr;

  bool ready() { return cuInit(0) == CUDA_SUCCESS && cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS; }
  CUdeviceptr take(std::size_t bytes) {
    CUdeviceptr address = 0;
    return cuMemAlloc_v2(&address, bytes) == CUDA_SUCCESS ? address : 0;
  }
  // Tells if that many bytes could be allocated now; frees them again.
  const char* room(std::size_t bytes) {
    const CUdeviceptr address = take(bytes);
    if (address != 0) cuMemFree_v2(address);
    return address != 0 ? "yes" : "no";
  }
};

// The share's limit is 1000 bytes, and the object takes all of them.
int mapped() {
  Cuda cuda;
  if (!cuda.ready()) return 1;
  struct {
    unsigned type = 1, handle_types = 0;  // pinned
    CUmemLocation location{};
    char rest[64] = {};
  } prop;
  prop.location.type = 1;  // device
  const auto* as_prop = reinterpret_cast<const CUmemAllocationProp*>(&prop);
  const CUdeviceptr first = 0x100000, second = 0x200000, stranger = 0x0ff000;
  CUmemGenericAllocationHandle object = 0, again = 0, over = 0;
  const auto say = [&](const char* after) { std::printf("%s: room %s\n", after, cuda.room(1)); };
  std::printf("create %u\n", cuda.cuMemCreate(&object, 1000, as_prop, 0));
  std::printf("create more %u\n", cuda.cuMemCreate(&over, 1, as_prop, 0));
  cuda.cuMemMap(first, 1000, 0, object, 0);
  cuda.cuMemMap(second, 1000, 0, object, 0);
  cuda.cuMemMap(stranger, 0x1000, 0, 77, 0);  // an imported object
  cuda.cuMemRelease(object);
  say("released, mapped twice");
  cuda.cuMemUnmap(stranger, first + 1000 - stranger);  // spans two mappings
  say("mapped once");
  again = object;  // as the driver returns it
  cuda.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(second));
  cuda.cuMemUnmap(second, 1000);
  say("retained, unmapped");
  cuda.cuMemRelease(again);
  say("released");
  cuda.cuMemRelease(again);
  cuda.cuMemUnmap(second, 1000);
  std::printf("all of it: room %s, and one more: %s\n", cuda.room(1000), cuda.room(1001));
  return 0;
}

// One thread's release gives its handle to another thread's create at once. quiet_driver.cpp forces this.
int handle_reuse() {
  Cuda cuda;
  if (!cuda.ready()) return 1;
  auto* reuse = found<void(void (*)())>(cuda.handle, "quiet_during_release");
  static Cuda* here;
  static unsigned prop[16] = {1, 0, 1, 0};
  here = &cuda;
  CUmemGenericAllocationHandle object = 0;
  cuda.cuMemCreate(&object, 300, reinterpret_cast<CUmemAllocationProp*>(prop), 0);
  reuse([] {
    CUmemGenericAllocationHandle other = 0;
    here->cuMemCreate(&other, 600, reinterpret_cast<CUmemAllocationProp*>(prop), 0);
  });
  cuda.cuMemRelease(object);
  std::printf("room for 400: %s, for 401: %s\n", cuda.room(400), cuda.room(401));
  here = nullptr;
  return 0;
}

int destroyed(const std::string& how, std::size_t bytes, std::size_t rest) {
  Cuda cuda;
  if (cuda.cuInit(0) != CUDA_SUCCESS) return 1;
  CUcontext keeper = nullptr, doomed = nullptr;
  if (cuda.cuCtxCreate_v2(&keeper, 0, 0) != CUDA_SUCCESS) return 1;
  if (how == "destroy") cuda.cuCtxCreate_v2(&doomed, 0, 1);
  else cuda.cuDevicePrimaryCtxRetain(&doomed, 0);
  cuda.cuCtxSetCurrent(keeper);
  const CUdeviceptr kept = cuda.take(rest);
  cuda.cuCtxSetCurrent(doomed);
  std::printf("took %s, ", cuda.take(bytes) != 0 ? "it" : "nothing");
  std::printf("again: %s\n", cuda.room(bytes));
  if (how == "destroy") std::printf("destroy %u\n", cuda.cuCtxDestroy_v2(doomed));
  if (how == "reset") std::printf("reset %u\n", cuda.cuDevicePrimaryCtxReset_v2(0));
  if (how == "release") {
    CUcontext twice = nullptr;
    cuda.cuDevicePrimaryCtxRetain(&twice, 0);
    std::printf("release %u, room: ", cuda.cuDevicePrimaryCtxRelease_v2(0));
    std::printf("%s\n", cuda.room(bytes));
    std::printf("release %u\n", cuda.cuDevicePrimaryCtxRelease_v2(0));
  }
  if (how == "destroy") cuda.cuCtxCreate_v2(&doomed, 0, 1);
  else cuda.cuCtxSetCurrent(keeper);
  std::printf("afterwards: %s\n", cuda.room(bytes));
  cuda.cuCtxSetCurrent(keeper);
  std::printf("the other's free: %u\n", cuda.cuMemFree_v2(kept));
  return 0;
}

// Every way to switch contexts, on two GPUs. The first is full: only its context gets refusals.
int switching() {
  Cuda cuda;
  CUcontext full = nullptr, empty = nullptr, popped = nullptr;
  if (cuda.cuInit(0) != CUDA_SUCCESS || cuda.cuCtxCreate_v2(&full, 0, 0) != CUDA_SUCCESS) return 1;
  const auto say = [&](const char* after) { std::printf("%s: room %s\n", after, cuda.room(1)); };
  cuda.take(1000);
  say("created and filled");
  cuda.cuCtxCreate_v2(&empty, 0, 1);
  say("another created");
  cuda.cuCtxSetCurrent(full);
  say("set back");
  cuda.cuCtxPushCurrent_v2(empty);
  say("pushed");
  cuda.cuCtxPopCurrent_v2(&popped);
  say("popped");
  std::thread([&] { cuda.cuCtxSetCurrent(empty); }).join();
  say("another thread set");
  cuda.cuCtxSetCurrent(empty);
  say("set");
  cuda.cuCtxDestroy_v2(empty);
  CUdeviceptr address = 0;
  std::printf("destroyed: %u", cuda.cuMemAlloc_v2(&address, 2000));
  cuda.cuCtxSetCurrent(full);
  cuda.cuCtxSetCurrent(nullptr);
  std::printf(", none: %u\n", cuda.cuMemAlloc_v2(&address, 2000));
  return 0;
}

void* on_a_small_stack(void* raw) {
  auto& cuda = *static_cast<Cuda*>(raw);
  if (!cuda.ready()) return raw;
  std::size_t free = 0, total = 0;
  cuda.take(1000);
  cuda.take(1ull << 40);
  cuda.cuMemGetInfo_v2(&free, &total);
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  found<nvmlInit_v2_t>(nvml, "nvmlInit_v2")();
  nvmlDevice_t device = nullptr;
  found<nvmlDeviceGetHandleByIndex_v2_t>(nvml, "nvmlDeviceGetHandleByIndex_v2")(0, &device);
  unsigned count = 0;
  found<nvmlDeviceGetComputeRunningProcesses_v3_t>(nvml, "nvmlDeviceGetComputeRunningProcesses_v3")(device, &count,
                                                                                                    nullptr);
  return nullptr;
}

int small_stack() {
  Cuda cuda;
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);  // loaded here, because the linker may need a larger stack
  if (nvml == nullptr) return 3;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t thread;
  void* failed = nullptr;
  if (pthread_create(&thread, &attributes, &on_a_small_stack, &cuda) != 0) return 3;
  pthread_join(thread, &failed);
  std::printf("%s\n", failed == nullptr ? "lived" : "not ready");
  return 0;
}

int init_at_once() {
  static Cuda cuda;
  constexpr int kThreads = 16;
  std::atomic<int> waiting{kThreads}, ready{0}, taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting > 0) sched_yield();
      CUcontext context = nullptr;
      if (cuda.cuInit(0) == CUDA_SUCCESS && cuda.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS) ++ready;
      if (cuda.take(100) != 0) ++taken;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d ready, %d of 16 took 100 of 1000\n", ready.load(), taken.load());
  std::fflush(stdout);
  getchar();
  return 0;
}

// Threads free each other's pointers, twice, and unknown and null ones, while all allocate.
enum class Until { done, exit, killed };

int churn(Until until) {
  static Cuda cuda;
  if (!cuda.ready()) return 1;
  static std::array<std::atomic<CUdeviceptr>, 64> shared{};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([i, until] {
      unsigned seed = i;
      cuda.cuCtxSetCurrent(cuda.context);
      for (int round = 0; (until != Until::done || round < 20000); ++round) {
        std::atomic<CUdeviceptr>& place = shared[static_cast<unsigned>(rand_r(&seed)) % 64];
        const CUdeviceptr old = place.load();
        CUdeviceptr fresh = rand_r(&seed) % 3 == 0 ? 0 : cuda.take(1 + static_cast<unsigned>(rand_r(&seed)) % 30);
        CUdeviceptr seen = old;
        if (!place.compare_exchange_strong(seen, fresh)) cuda.cuMemFree_v2(fresh);
        else cuda.cuMemFree_v2(old);
        if (round % 5 == 0) cuda.cuMemFree_v2(old);  // some lose the race
        if (round % 7 == 0) cuda.cuMemFree_v2(0x7fff'ffff'0000 + static_cast<unsigned>(round));
        if (round % 11 == 0) cuda.cuMemFree_v2(~0ull);
      }
    });
  }
  if (until == Until::exit) {
    usleep(3000);
    std::exit(0);
  }
  if (until == Until::killed) {
    std::printf("churning\n");
    std::fflush(stdout);
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& place : shared) cuda.cuMemFree_v2(place);
  std::printf("all of it: room %s\n", cuda.room(1000));
  return 0;
}

// Allocates, queries and frees in every way that reads the share's pages, until a line arrives.
int churn_slowly() {
  Cuda cuda;
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!cuda.ready() || nvml == nullptr) return 1;
  found<nvmlInit_v2_t>(nvml, "nvmlInit_v2")();
  nvmlDevice_t device = nullptr;
  found<nvmlDeviceGetHandleByIndex_v2_t>(nvml, "nvmlDeviceGetHandleByIndex_v2")(0, &device);
  auto* processes = found<nvmlDeviceGetComputeRunningProcesses_v3_t>(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
  std::printf("churning\n");
  std::fflush(stdout);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 0) == 0) {
    std::size_t free = 0, total = 0;
    const CUdeviceptr address = cuda.take(100);
    cuda.take(1ull << 40);
    cuda.cuMemGetInfo_v2(&free, &total);
    nvmlProcessInfo_t listed[4];
    unsigned count = 4;
    processes(device, &count, listed);
    cuda.cuMemFree_v2(address);
  }
  return 0;
}

int huge() {
  Cuda cuda;
  if (!cuda.ready()) return 1;
  for (const std::size_t bytes : {~0ull, ~0ull - 1, ~0ull - 4096, 1ull << 63, (1ull << 63) - 1, 1ull << 56}) {
    CUdeviceptr address = 0;
    std::printf("%u ", cuda.cuMemAlloc_v2(&address, bytes));
  }
  std::printf("room %s\n", cuda.room(1000));
  return 0;
}

// Holds memory across exec. The new program must not be charged for it.
int exec_with_memory(char** argv) {
  Cuda cuda;
  if (!cuda.ready() || cuda.take(1000) == 0) return 1;
  char after[] = "after-exec";
  char* arguments[] = {argv[0], after, nullptr};
  execv(argv[0], arguments);
  return 3;
}

int after_exec() {
  // NVML views come before any CUDA call, because a CUDA call would release the former program's slot anyway.
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return 1;
  found<nvmlInit_v2_t>(nvml, "nvmlInit_v2")();
  nvmlDevice_t device = nullptr;
  found<nvmlDeviceGetHandleByIndex_v2_t>(nvml, "nvmlDeviceGetHandleByIndex_v2")(0, &device);
  nvmlProcessInfo_t listed[4];
  unsigned count = 4;
  found<nvmlDeviceGetComputeRunningProcesses_v3_t>(nvml, "nvmlDeviceGetComputeRunningProcesses_v3")(device, &count,
                                                                                                    listed);
  const auto own = std::count_if(listed, listed + std::min(count, 4u),
                                 [](const auto& one) { return one.pid == static_cast<unsigned>(getpid()); });
  std::printf("listed %d ", static_cast<int>(own));
  Cuda cuda;
  if (!cuda.ready()) return 1;
  std::printf("room %s\n", cuda.room(1000));
  return 0;
}

// Allocates and frees at each line of input.
int on_command() {
  Cuda cuda;
  if (!cuda.ready()) return 1;
  std::size_t free = 0, total = 0;
  do {
    std::printf("room %s, refused %s", cuda.room(1000), cuda.room(1001));
    std::printf(", info %u\n", cuda.cuMemGetInfo_v2(&free, &total));
    std::fflush(stdout);
  } while (getchar() != EOF);
  return 0;
}

// One of two processes that want the same bytes in every round.
int race(const char* path, unsigned self, std::size_t bytes) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* at = mmap(nullptr, sizeof(headgate::e2e::Race), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return 3;
  auto& common = *static_cast<headgate::e2e::Race*>(at);
  Cuda cuda;
  if (!cuda.ready()) return 1;
  for (unsigned round = 0; round < headgate::e2e::kRaceRounds; ++round) {
    common.meet(round * 2);
    CUdeviceptr address = 0;
    common.result[self][round] = cuda.cuMemAlloc_v2(&address, bytes);
    common.meet(round * 2 + 1);
    if (address != 0) cuda.cuMemFree_v2(address);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "mapped") return mapped();
  if (what == "handle-reuse") return handle_reuse();
  if (what == "destroyed")
    return destroyed(argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
  if (what == "switching") return switching();
  if (what == "small-stack") return small_stack();
  if (what == "init-at-once") return init_at_once();
  if (what == "churn") return churn(Until::done);
  if (what == "churn-until-exit") return churn(Until::exit);
  if (what == "churn-forever") return churn(Until::killed);
  if (what == "churn-slowly") return churn_slowly();
  if (what == "huge") return huge();
  if (what == "exec") return exec_with_memory(argv);
  if (what == "after-exec") return after_exec();
  if (what == "on-command") return on_command();
  if (what == "race")
    return race(argv[2], static_cast<unsigned>(std::atoi(argv[3])), std::strtoull(argv[4], nullptr, 10));
  std::fprintf(stderr, "limiter_attack: what?\n");
  return 2;
}
