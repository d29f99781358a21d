// What a program sees of the GPU, one subcommand per question. The output of runs with and without the limiter can be
// compared. Built twice: with run-time lookup of the driver, and (LINKED) linked with it.
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"

using namespace headgate::abi;

extern "C" void* helper_next(const char* name);
extern "C" void* helper_default(const char* name);
extern "C" unsigned helper_synchronize();

// Pretends to run with raised privileges: the limiter calls getauxval, and finds this definition first.
static bool pretend_secure = false;
extern "C" unsigned long getauxval(unsigned long type) noexcept {
  if (type == AT_SECURE) return pretend_secure ? 1 : 0;
  const auto real = reinterpret_cast<unsigned long (*)(unsigned long)>(dlsym(RTLD_NEXT, "getauxval"));
  return real(type);
}

#ifdef LINKED
extern "C" {
cuInit_t cuInit;
cuMemAlloc_v2_t cuMemAlloc_v2;
cuMemAllocAsync_t cuMemAllocAsync;
cuCtxGetDevice_t cuCtxGetDevice;
cuStreamSynchronize_t cuStreamSynchronize;
}
#endif

namespace {

const char* file_of(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

void show(const char* road, const char* name, void* address) {
  Dl_info info{};
  if (address == nullptr) std::printf("%s %s: null\n", road, name);
  else if (dladdr(address, &info) == 0) std::printf("%s %s: unknown\n", road, name);
  else std::printf("%s %s: %s\n", road, name, file_of(info.dli_fname));
}

void* library(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::printf("no %s: %s\n", name, dlerror());
    std::exit(3);
  }
  return handle;
}

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
  void* handle = library("libcuda.so.1");
  // clang-format off
#define USE(name) name##_t* name = found<name##_t>(handle, #name);
  USE(cuInit)
  USE(cuCtxCreate_v2)
  USE(cuCtxSetCurrent)
  USE(cuMemAlloc_v2)
  USE(cuMemFree_v2)
  USE(cuMemAllocManaged)
  USE(cuMemAllocPitch_v2)
  USE(cuMemGetInfo_v2)
  USE(cuDeviceTotalMem_v2)
  USE(cuArrayCreate_v2)
#undef USE
  // clang-format on

  CUresult ready(CUdevice device = 0) {
    if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return result;
    CUcontext context = nullptr;
    return cuCtxCreate_v2(&context, 0, device);
  }
};

constexpr const char* kNames[] = {
    "cuInit",   "cuMemAlloc_v2", "cuMemAllocAsync", "cuCtxGetDevice", "cuStreamSynchronize",
    "cuNoSuch", "cudaMalloc",    "getenv"};

int roads() {
  for (const char* name : kNames) {
    show("default-before", name, dlsym(RTLD_DEFAULT, name));
    show("next-before", name, helper_next(name));
  }
  void* cuda = library("libcuda.so.1");
  void* self = dlopen(nullptr, RTLD_NOW);
  void* helper = library("libprobe-helper.so");
  for (const char* name : kNames) {
    show("handle", name, dlsym(cuda, name));
    show("handle-versioned", name, dlvsym(cuda, name, "GLIBC_2.2.5"));
    show("default", name, dlsym(RTLD_DEFAULT, name));
    show("default-from-library", name, helper_default(name));
    show("next", name, dlsym(RTLD_NEXT, name));
    show("next-from-library", name, helper_next(name));
    show("program", name, dlsym(self, name));
    show("helper", name, dlsym(helper, name));
  }
#ifdef LINKED
  show("linked", "cuInit", reinterpret_cast<void*>(&cuInit));
  show("linked", "cuMemAlloc_v2", reinterpret_cast<void*>(&cuMemAlloc_v2));
  show("linked", "cuCtxGetDevice", reinterpret_cast<void*>(&cuCtxGetDevice));
#endif
  return 0;
}

int proc_address() {
  const Cuda cuda;
  auto* ask = found<cuGetProcAddress_v2_t>(cuda.handle, "cuGetProcAddress_v2");
  struct Row {
    const char* name;
    int version;
    cuuint64_t flags;
  };
  const Row rows[] = {{"cuInit", 12000, 0},           {"cuMemAlloc", 12000, 0},      {"cuMemAlloc", 12000, 1},
                      {"cuMemAlloc", 12000, 2},       {"cuMemAlloc", 2000, 0},       {"cuMemFree", 12000, 0},
                      {"cuMemFree", 14000, 0},        {"cuMemAllocAsync", 11010, 0}, {"cuMemAllocAsync", 12000, 0},
                      {"cuCtxGetDevice", 12000, 0},   {"cuNoSuch", 12000, 0},        {"cuLaunchKernel", 12000, 2},
                      {"cuGetProcAddress", 12000, 0}, {"cuStreamDestroy", 2000, 0},  {"cuStreamDestroy", 12000, 0}};
  for (const Row& row : rows) {
    void* address = nullptr;
    auto status = static_cast<CUdriverProcAddressQueryResult>(77);
    const CUresult result = ask(row.name, &address, row.version, row.flags, &status);
    Dl_info info{};
    const bool known = address != nullptr && dladdr(address, &info) != 0;
    std::printf("%s %d %d: result %u status %u %s\n", row.name, row.version, static_cast<int>(row.flags), result,
                status,
                address == nullptr ? "null"
                : known            ? file_of(info.dli_fname)
                                   : "unknown");
    if (known && std::strcmp(file_of(info.dli_fname), "libheadgate.so") == 0) {
      std::printf("  %s\n", info.dli_sname == nullptr ? "?" : info.dli_sname);
    }
  }
  return 0;
}

int errors() {
  const Cuda cuda;
  CUdeviceptr address = 0;
  std::size_t pitch = 0, free = 0;
  const auto say = [](const char* what, CUresult result) { std::printf("%s: %u\n", what, result); };
  say("alloc before init", cuda.cuMemAlloc_v2(&address, 64));
  say("free before init", cuda.cuMemFree_v2(64));
  say("info before init", cuda.cuMemGetInfo_v2(&free, &free));
  say("bad init", cuda.cuInit(1));
  say("init", cuda.cuInit(0));
  say("alloc without a context", cuda.cuMemAlloc_v2(&address, 64));
  say("huge alloc without a context", cuda.cuMemAlloc_v2(&address, 1ull << 60));
  say("info without a context", cuda.cuMemGetInfo_v2(&free, &free));
  CUcontext context = nullptr;
  say("context on GPU 7", cuda.cuCtxCreate_v2(&context, 0, 7));
  say("context", cuda.cuCtxCreate_v2(&context, 0, 0));
  say("alloc to null", cuda.cuMemAlloc_v2(nullptr, 64));
  say("alloc nothing", cuda.cuMemAlloc_v2(&address, 0));
  say("managed nothing", cuda.cuMemAllocManaged(&address, 0, 1));
  say("pitch without a pitch", cuda.cuMemAllocPitch_v2(&address, nullptr, 100, 100, 4));
  say("pitch of nothing", cuda.cuMemAllocPitch_v2(&address, &pitch, 0, 100, 4));
  say("array without a shape", cuda.cuArrayCreate_v2(nullptr, nullptr));
  say("free null", cuda.cuMemFree_v2(0));
  say("free unknown", cuda.cuMemFree_v2(12345));
  say("info to null", cuda.cuMemGetInfo_v2(nullptr, nullptr));
  say("total to null", cuda.cuDeviceTotalMem_v2(nullptr, 0));
  say("total of GPU 9", cuda.cuDeviceTotalMem_v2(&free, 9));
  return 0;
}

// Sizes are allocated in order and printed; "-" frees the latest, "pN" takes N rows of 300 bytes.
int allocate(int count, char** sizes) {
  Cuda cuda;
  const CUresult ready = cuda.ready();
  std::printf("ready: %u\n", ready);
  if (ready != CUDA_SUCCESS) return 1;
  auto* calls = reinterpret_cast<std::uint64_t (*)()>(dlsym(cuda.handle, "quiet_allocations"));
  std::vector<CUdeviceptr> held;
  for (int i = 0; i < count; ++i) {
    CUdeviceptr address = 0;
    std::size_t pitch = 0;
    if (std::strcmp(sizes[i], "-") == 0) {
      std::printf("free: %u\n", cuda.cuMemFree_v2(held.back()));
      held.pop_back();
      continue;
    }
    const CUresult result =
        sizes[i][0] == 'p' ? cuda.cuMemAllocPitch_v2(&address, &pitch, 300, std::strtoull(sizes[i] + 1, nullptr, 10), 4)
                           : cuda.cuMemAlloc_v2(&address, std::strtoull(sizes[i], nullptr, 10));
    std::printf("alloc %s: %u\n", sizes[i], result);
    if (result == CUDA_SUCCESS) held.push_back(address);
  }
  std::size_t free = 0, total = 0, whole = 0;
  cuda.cuMemGetInfo_v2(&free, &total);
  cuda.cuDeviceTotalMem_v2(&whole, 0);
  std::printf("free %zu total %zu whole %zu\n", free, total, whole);
  if (calls != nullptr) std::printf("driver calls %llu\n", static_cast<unsigned long long>(calls()));
  std::fflush(stdout);
  if (std::getenv("PROBE_WAIT") != nullptr) getchar();
  return 0;
}

// A pointer copied from the program's function table before any call must lead to the same function.
int copied() {
  Cuda cuda;
  cuMemAlloc_v2_t* copy = cuda.cuMemAlloc_v2;
  const CUresult ready = cuda.ready();
  CUdeviceptr address = 0;
  std::printf("ready: %u, too much: %u\n", ready, copy(&address, 1ull << 33));
  return 0;
}

int forked() {
  Cuda cuda;
  const CUresult ready = cuda.ready();
  CUdeviceptr address = 0;
  std::printf("parent ready %u, alloc %u\n", ready, cuda.cuMemAlloc_v2(&address, 1000));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (std::getenv("PROBE_CHILD_QUIET") != nullptr) {
      getchar();
      _exit(0);
    }
    const CUresult again = cuda.ready();
    std::printf("child ready %u, alloc %u\n", again, cuda.cuMemAlloc_v2(&address, 500));
    std::fflush(stdout);
    getchar();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child ended %d, parent frees %u\n", status, cuda.cuMemFree_v2(address));
  return 0;
}

int nvml_view() {
  void* handle = library("libnvidia-ml.so.1");
  const nvmlReturn_t ready = found<nvmlInit_v2_t>(handle, "nvmlInit_v2")();
  std::printf("init %u\n", ready);
  if (ready != NVML_SUCCESS) return 1;
  nvmlDevice_t device = nullptr;
  found<nvmlDeviceGetHandleByIndex_v2_t>(handle, "nvmlDeviceGetHandleByIndex_v2")(0, &device);
  nvmlMemory_t memory{};
  found<nvmlDeviceGetMemoryInfo_t>(handle, "nvmlDeviceGetMemoryInfo")(device, &memory);
  std::printf("total %llu free %llu used %llu\n", memory.total, memory.free, memory.used);
  auto* list = found<nvmlDeviceGetComputeRunningProcesses_v3_t>(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
  unsigned count = 0;
  std::printf("asked with no room: %u\n", list(device, &count, nullptr));
  nvmlProcessInfo_t entries[16];
  count = 16;
  std::printf("list %u\n", list(device, &count, entries));
  for (unsigned i = 0; i < count; ++i) {
    std::printf("process %s %llu\n", entries[i].pid == static_cast<unsigned>(getpid()) ? "self" : "stranger",
                entries[i].usedGpuMemory);
  }
  std::printf("cuda loaded: %s\n", dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW) != nullptr ? "yes" : "no");
  return 0;
}

// Takes and frees at random below the limit, and reports refusals.
int storm(int rounds, std::uint64_t most) {
  Cuda cuda;
  if (cuda.ready() != CUDA_SUCCESS) return 1;
  unsigned seed = static_cast<unsigned>(getpid());
  int refused = 0;
  CUdeviceptr held[4] = {};
  for (int i = 0; i < rounds; ++i) {
    CUdeviceptr& place = held[i % 4];
    if (place != 0) cuda.cuMemFree_v2(place);
    place = 0;
    if (cuda.cuMemAlloc_v2(&place, 1 + static_cast<std::uint64_t>(rand_r(&seed)) % most) != CUDA_SUCCESS) ++refused;
  }
  for (const CUdeviceptr address : held) cuda.cuMemFree_v2(address);
  std::printf("refused %d\n", refused);
  return 0;
}

double nanoseconds_each(int rounds, auto body) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / rounds;
}

int timing() {
  Cuda cuda;
  const auto start = std::chrono::steady_clock::now();
  if (cuda.ready() != CUDA_SUCCESS) return 1;
  const double first = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  CUdeviceptr address = 0;
  const auto pair = [&] {
    cuda.cuMemAlloc_v2(&address, 4096);
    cuda.cuMemFree_v2(address);
  };
  nanoseconds_each(100000, pair);
  std::printf("init and first context %.0f us\n", first);
  std::printf("alloc and free %.1f ns\n", nanoseconds_each(1000000, pair));
  std::printf("refusal %.1f ns\n", nanoseconds_each(1000000, [&] { cuda.cuMemAlloc_v2(&address, 1ull << 50); }));
  return 0;
}

int only_ready() {
  Cuda cuda;
  const auto start = std::chrono::steady_clock::now();
  const CUresult result = cuda.ready();
  const bool loaded = dlopen("libnvidia-ml.so.1", RTLD_NOLOAD | RTLD_NOW) != nullptr;
  // After 25 ms the limiter's own thread may have loaded NVML, without delaying the program.
  const bool late = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(25);
  std::printf("ready: %u, NVML loaded at once: %s\n", result, loaded && !late ? "yes" : "no");
  return 0;
}

int stay_out() {
  pretend_secure = true;
  return allocate(0, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "roads") return roads();
  if (what == "procaddress") return proc_address();
  if (what == "errors") return errors();
  if (what == "alloc") return allocate(argc - 2, argv + 2);
  if (what == "copied") return copied();
  if (what == "fork") return forked();
  if (what == "nvml") return nvml_view();
  if (what == "storm") return storm(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  if (what == "timing") return timing();
  if (what == "ready") return only_ready();
  if (what == "own") return std::printf("own: %u\n", helper_synchronize()) > 0 ? 0 : 1;
  if (what == "secure") return stay_out();
  std::fprintf(
      stderr,
      "limiter_probe roads|procaddress|errors|alloc SIZE...|copied|fork|nvml|storm N MOST|timing|ready|secure\n");
  return 2;
}
