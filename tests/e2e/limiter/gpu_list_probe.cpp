// Prints the GPUs that this program sees through NVML and CUDA, and whether NVML finds those named by its arguments.
//
// nvml NUMBER UUID minor MINOR PCI SERIAL MIB     one per GPU; nvmlDeviceGetIndex must return the same number
// beyond RESULT                                   for the number after the last
// near COUNT, node COUNT                          results of the topology calls
// cuda ORDINAL UUID MIB
// WORD BY_UUID BY_PCI BY_SERIAL                   NVML's results, for each argument
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "guest/abi/nvml.hpp"
#include "support/driver_call.hpp"

namespace {

using namespace headgate::abi;

template <typename Function>
Function* nvml(const char* name) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto* function = library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
  if (!function) std::printf("no %s\n", name), std::exit(3);
  return function;
}
#define NVML(name) nvml<name##_t>(#name)

void print_nvml() {
  unsigned count = 0;
  nvmlDevice_t device = nullptr;
  NVML(nvmlDeviceGetCount_v2)(&count);
  for (unsigned i = 0; i < count; ++i) {
    char uuid[96] = "?", serial[32] = "?";
    unsigned index = 99, minor = 99;
    nvmlPciInfo_t pci{};
    nvmlMemory_t memory{};
    const nvmlReturn_t found = NVML(nvmlDeviceGetHandleByIndex_v2)(i, &device);
    if (found != NVML_SUCCESS) {
      std::printf("nvml %u error %u\n", i, found);
      continue;
    }
    NVML(nvmlDeviceGetUUID)(device, uuid, sizeof uuid);
    NVML(nvmlDeviceGetSerial)(device, serial, sizeof serial);
    NVML(nvmlDeviceGetPciInfo_v3)(device, &pci);
    NVML(nvmlDeviceGetIndex)(device, &index);
    NVML(nvmlDeviceGetMinorNumber)(device, &minor);
    NVML(nvmlDeviceGetMemoryInfo)(device, &memory);
    std::printf("nvml %u %s minor %u %s %s %llu\n", index == i ? i : 99, uuid, minor, pci.busId, serial,
                memory.total >> 20);
  }
  std::printf("beyond %u\n", NVML(nvmlDeviceGetHandleByIndex_v2)(count, &device));
  if (count == 0 || NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) != NVML_SUCCESS) return;
  constexpr nvmlGpuTopologyLevel_t kNode = 40;
  std::vector<nvmlDevice_t> room(16);
  unsigned near = 16, node = 16;
  const auto nearest = NVML(nvmlDeviceGetTopologyNearestGpus)(device, kNode, &near, room.data());
  const auto set = NVML(nvmlSystemGetTopologyGpuSet)(0, &node, room.data());
  std::printf("near %u, node %u\n", nearest == NVML_SUCCESS ? near : 99, set == NVML_SUCCESS ? node : 99);
}

void print_cuda() {
  int count = 0;
  CALL(cuDeviceGetCount)(&count);
  for (int i = 0; i < count; ++i) {
    CUuuid uuid{};
    std::size_t bytes = 0;
    CALL(cuDeviceGetUuid)(&uuid, i);
    CALL(cuDeviceTotalMem_v2)(&bytes, i);
    std::printf("cuda %d GPU-", i);
    for (int b = 0; b < 16; ++b)
      std::printf("%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "",
                  static_cast<unsigned char>(uuid.bytes[b]));
    std::printf(" %zu\n", bytes >> 20);
  }
}

}  // namespace

// "-" as first argument: calls CUDA first. A program may start with either library.
int main(int count, char** words) {
  const bool cuda_first = count > 1 && words[1][0] == '-';
  if (cuda_first) CALL(cuInit)(0);
  if (const nvmlReturn_t result = NVML(nvmlInit_v2)(); result != NVML_SUCCESS) {
    std::printf("nvmlInit %u\n", result);
    return 1;
  }
  print_nvml();
  if (!cuda_first) CALL(cuInit)(0);
  print_cuda();
  for (int i = cuda_first ? 2 : 1; i < count; ++i) {
    nvmlDevice_t device = nullptr;
    std::printf("%s", words[i]);
    std::printf(" %u", NVML(nvmlDeviceGetHandleByUUID)(words[i], &device));
    std::printf(" %u", NVML(nvmlDeviceGetHandleByPciBusId_v2)(words[i], &device));
    std::printf(" %u\n", NVML(nvmlDeviceGetHandleBySerial)(words[i], &device));
  }
}
