// A program that loads the driver from a given library and allocates memory on command. Standard input: "alloc BYTES",
// "front BYTES" (through BYPASS_FIRST), "info", "compute" (kernels without a pause from then on), "timed" (15 kernels:
// the median time by the program's events, and the wall time of each, in microseconds). It ends with its input.
// BYPASS_FIRST in the environment names a library through which it first makes a context. --accounting: switches the
// driver's accounting on and ends (status 4: not allowed). Built twice; the second build (STATIC) is statically linked
// and contains the simulated driver.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"

using namespace headgate::abi;

#ifdef STATIC
extern "C" {
cuInit_t cuInit;
cuCtxCreate_v2_t cuCtxCreate_v2;
cuMemAlloc_v2_t cuMemAlloc_v2;
cuMemGetInfo_v2_t cuMemGetInfo_v2;
}
#endif

namespace {

struct Driver {
  cuInit_t* init;
  cuCtxCreate_v2_t* create;
  cuMemAlloc_v2_t* allocate;
  cuMemGetInfo_v2_t* info;
  cuModuleLoadData_t* load = nullptr;
  cuModuleGetFunction_t* function = nullptr;
  cuLaunchKernel_t* launch = nullptr;
  cuCtxSynchronize_t* synchronise = nullptr;
  cuEventCreate_t* event = nullptr;
  cuEventRecord_t* record = nullptr;
  cuEventElapsedTime_t* elapsed = nullptr;
};

#ifdef STATIC
Driver driver_at(const char*) {
  return {.init = &cuInit, .create = &cuCtxCreate_v2, .allocate = &cuMemAlloc_v2, .info = &cuMemGetInfo_v2};
}
#else
Driver driver_at(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::printf("no driver: %s\n", dlerror());
    std::exit(3);
  }
  return {reinterpret_cast<cuInit_t*>(dlsym(library, "cuInit")),
          reinterpret_cast<cuCtxCreate_v2_t*>(dlsym(library, "cuCtxCreate_v2")),
          reinterpret_cast<cuMemAlloc_v2_t*>(dlsym(library, "cuMemAlloc_v2")),
          reinterpret_cast<cuMemGetInfo_v2_t*>(dlsym(library, "cuMemGetInfo_v2")),
          reinterpret_cast<cuModuleLoadData_t*>(dlsym(library, "cuModuleLoadData")),
          reinterpret_cast<cuModuleGetFunction_t*>(dlsym(library, "cuModuleGetFunction")),
          reinterpret_cast<cuLaunchKernel_t*>(dlsym(library, "cuLaunchKernel")),
          reinterpret_cast<cuCtxSynchronize_t*>(dlsym(library, "cuCtxSynchronize")),
          reinterpret_cast<cuEventCreate_t*>(dlsym(library, "cuEventCreate")),
          reinterpret_cast<cuEventRecord_t*>(dlsym(library, "cuEventRecord")),
          reinterpret_cast<cuEventElapsedTime_t*>(dlsym(library, "cuEventElapsedTime"))};
}

int switch_accounting_on() {
  void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return 3;
  nvmlDevice_t device = nullptr;
  reinterpret_cast<nvmlReturn_t (*)()>(dlsym(nvml, "nvmlInit_v2"))();
  reinterpret_cast<nvmlReturn_t (*)(unsigned, nvmlDevice_t*)>(dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
  const nvmlReturn_t done = reinterpret_cast<nvmlReturn_t (*)(nvmlDevice_t, nvmlEnableState_t)>(
      dlsym(nvml, "nvmlDeviceSetAccountingMode"))(device, NVML_FEATURE_ENABLED);
  return done == NVML_SUCCESS ? 0 : done == NVML_ERROR_NO_PERMISSION ? 4 : 5;
}
#endif

CUresult ready(const Driver& driver) {
  CUcontext context = nullptr;
  const CUresult result = driver.init(0);
  return result == CUDA_SUCCESS ? driver.create(&context, 0, 0) : result;
}

// Runs ten kernels at a time, so that the GPU is almost never idle. Prints 0 once the first have run; ends only by an
// error or a signal.
CUresult compute(const Driver& driver) {
  constexpr char kPtx[] = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry busy() { .pragma "headgate.sim.us 20000"; ret; }
)";
  if (driver.launch == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmodule module = nullptr;
  CUfunction busy = nullptr;
  CUresult result = driver.load(&module, kPtx);
  if (result == CUDA_SUCCESS) result = driver.function(&busy, module, "busy");
  for (bool said = false; result == CUDA_SUCCESS; said = true) {
    for (int i = 0; i < 10 && result == CUDA_SUCCESS; ++i)
      result = driver.launch(busy, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    if (result == CUDA_SUCCESS) result = driver.synchronise();
    if (result == CUDA_SUCCESS && !said) std::puts("0"), std::fflush(stdout);
  }
  return result;
}

// Measures as an autotuner does: record, kernel, record.
void timed(const Driver& driver) {
  constexpr int kSections = 15;
  constexpr char kPtx[] = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry one() { .pragma "headgate.sim.us 500"; ret; }
)";
  CUmodule module = nullptr;
  CUfunction one = nullptr;
  CUevent begin = nullptr, end = nullptr;
  driver.load(&module, kPtx);
  driver.function(&one, module, "one");
  driver.event(&begin, 0);
  driver.event(&end, 0);
  const auto launch = [&] { driver.launch(one, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); };
  for (int i = 0; i < 40; ++i) launch();
  driver.synchronise();
  float took[kSections];
  const auto begun = std::chrono::steady_clock::now();
  for (float& ms : took) {
    driver.record(begin, nullptr);
    launch();
    driver.record(end, nullptr);
    driver.synchronise();
    driver.elapsed(&ms, begin, end);
  }
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - begun;
  std::sort(took, took + kSections);
  std::printf("%.0f of %.0f\n", static_cast<double>(took[kSections / 2]) * 1000, all.count() / kSections);
}

}  // namespace

int main(int count, char** words) {
#ifndef STATIC
  if (count > 1 && std::strcmp(words[1], "--accounting") == 0) return switch_accounting_on();
  const char* const first = std::getenv("BYPASS_FIRST");
  const Driver front = first != nullptr ? driver_at(first) : Driver{};
  if (first != nullptr) ready(front);
#endif
  const Driver driver = driver_at(count > 1 ? words[1] : "libcuda.so.1");
  std::printf("ready %u\n", static_cast<unsigned>(ready(driver)));
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    if (std::strncmp(line, "alloc ", 6) == 0) {
      CUdeviceptr address = 0;
      std::printf("%u\n", static_cast<unsigned>(driver.allocate(&address, std::strtoull(line + 6, nullptr, 10))));
#ifndef STATIC
    } else if (std::strncmp(line, "front ", 6) == 0) {
      CUdeviceptr address = 0;
      std::printf("%u\n", static_cast<unsigned>(front.allocate(&address, std::strtoull(line + 6, nullptr, 10))));
#endif
    } else if (std::strncmp(line, "timed", 5) == 0) {
      timed(driver);
    } else if (std::strncmp(line, "compute", 7) == 0) {
      std::printf("%u\n", static_cast<unsigned>(compute(driver)));
    } else {
      std::size_t free = 0, total = 0;
      driver.info(&free, &total);
      std::printf("%zu of %zu\n", free, total);
    }
    std::fflush(stdout);
  }
}
