#include "cli/devices.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>

#include "guest/abi/nvml.hpp"

namespace headgate::cli {
namespace {

using namespace abi;

constexpr std::string_view kNoDriverHint =
    "no NVIDIA driver is needed to try it: 'headgate run --sim ...' uses a simulated GPU";

struct Nvml {
  void* library = nullptr;
#define NVML_FN(name, kind, parameters, arguments) name##_t* name = nullptr;
#include "guest/abi/nvml_table.def"
};

std::string why(nvmlReturn_t result) {
  switch (result) {
    case NVML_ERROR_DRIVER_NOT_LOADED: return "the kernel driver is not loaded";
    case NVML_ERROR_NO_PERMISSION: return "permission denied";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "a library of the driver is missing";
    case NVML_ERROR_GPU_IS_LOST: return "a GPU is lost";
    default: return "NVML error " + std::to_string(static_cast<unsigned>(result));
  }
}

Result<Nvml> load(const std::string& file) {
  Nvml nvml;
  // Never closed: a driver's library does not survive that.
  nvml.library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml.library == nullptr) {
    const char* error = ::dlerror();
    return fail(ErrorCode::unreachable,
                std::string("no NVIDIA driver here: ") + (error != nullptr ? error : file.c_str()),
                std::string(kNoDriverHint));
  }
#define NVML_FN(name, kind, parameters, arguments) \
  nvml.name = reinterpret_cast<name##_t*>(::dlsym(nvml.library, #name));
#include "guest/abi/nvml_table.def"
  if (nvml.nvmlInit_v2 == nullptr || nvml.nvmlDeviceGetCount_v2 == nullptr ||
      nvml.nvmlDeviceGetHandleByIndex_v2 == nullptr || nvml.nvmlDeviceGetUUID == nullptr ||
      nvml.nvmlDeviceGetName == nullptr || nvml.nvmlDeviceGetMemoryInfo == nullptr) {
    return fail(ErrorCode::unreachable, file + " lacks functions that every NVML since 2013 has",
                "headgate doctor --symbols " + file + " lists them");
  }
  return nvml;
}

void read_memory(const Nvml& nvml, nvmlDevice_t device, Gpu& gpu) {
  nvmlMemory_v2_t v2{};
  v2.version = static_cast<unsigned>(sizeof v2) | 2u << 24;
  if (nvml.nvmlDeviceGetMemoryInfo_v2 != nullptr && nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2) == NVML_SUCCESS) {
    gpu.memory_total_bytes = v2.total;
    gpu.memory_used_bytes = v2.used;
    gpu.memory_free_bytes = v2.free;
    gpu.memory_reserved_bytes = v2.reserved;
    return;
  }
  nvmlMemory_t v1{};
  if (nvml.nvmlDeviceGetMemoryInfo(device, &v1) != NVML_SUCCESS) return;
  gpu.memory_total_bytes = v1.total;
  gpu.memory_used_bytes = v1.used;
  gpu.memory_free_bytes = v1.free;
}

void read_pids(const Nvml& nvml, nvmlDevice_t device, Gpu& gpu) {
  if (nvml.nvmlDeviceGetComputeRunningProcesses_v3 == nullptr) return;
  std::array<nvmlProcessInfo_t, 256> processes{};
  unsigned count = processes.size();
  if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes.data()) != NVML_SUCCESS) return;
  for (unsigned i = 0; i < count && i < processes.size(); ++i) gpu.pids.push_back(processes[i].pid);
}

void read_state(const Nvml& nvml, nvmlDevice_t device, Gpu& gpu) {
  nvmlUtilization_t utilization{};
  if (nvml.nvmlDeviceGetUtilizationRates != nullptr &&
      nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS)
    gpu.busy_percent = utilization.gpu;
  unsigned value = 0;
  if (nvml.nvmlDeviceGetTemperature != nullptr &&
      nvml.nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
    gpu.temperature_c = value;
  if (nvml.nvmlDeviceGetPowerUsage != nullptr && nvml.nvmlDeviceGetPowerUsage(device, &value) == NVML_SUCCESS)
    gpu.power_mw = value;
  if (nvml.nvmlDeviceGetEnforcedPowerLimit != nullptr &&
      nvml.nvmlDeviceGetEnforcedPowerLimit(device, &value) == NVML_SUCCESS)
    gpu.power_limit_mw = value;
}

Result<Gpu> read_gpu(const Nvml& nvml, std::uint32_t index) {
  nvmlDevice_t device = nullptr;
  if (const auto result = nvml.nvmlDeviceGetHandleByIndex_v2(index, &device); result != NVML_SUCCESS) {
    return fail(ErrorCode::unreachable, "GPU " + std::to_string(index) + " does not answer: " + why(result));
  }
  Gpu gpu;
  gpu.index = index;
  std::array<char, 96> text{};
  if (nvml.nvmlDeviceGetUUID(device, text.data(), text.size()) == NVML_SUCCESS) gpu.uuid = text.data();
  if (nvml.nvmlDeviceGetName(device, text.data(), text.size()) == NVML_SUCCESS) gpu.model = text.data();
  nvmlPciInfo_t pci{};
  if (nvml.nvmlDeviceGetPciInfo_v3 != nullptr && nvml.nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
    gpu.pci_bus_id = pci.busId;
  read_memory(nvml, device, gpu);
  read_state(nvml, device, gpu);
  read_pids(nvml, device, gpu);
  return gpu;
}

std::string file_of(void* library) {
  link_map* map = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

std::string short_model(const std::string& model) {
  for (const std::string prefix : {"NVIDIA GeForce ", "NVIDIA "}) {
    if (model.starts_with(prefix)) return model.substr(prefix.size());
  }
  return model;
}

Result<Gpus> read_gpus(const Source& source) {
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  const Nvml nvml = TRY(load(source.library));
  if (const auto result = nvml.nvmlInit_v2(); result != NVML_SUCCESS) {
    return fail(ErrorCode::unreachable, "the NVIDIA driver does not answer: " + why(result),
                std::string(kNoDriverHint));
  }
  Gpus gpus;
  gpus.library = file_of(nvml.library);
  gpus.simulated = !source.simulated_directory.empty() || gpus.library.ends_with("/sim/libnvidia-ml.so.1");
  std::array<char, 96> version{};
  if (nvml.nvmlSystemGetDriverVersion != nullptr &&
      nvml.nvmlSystemGetDriverVersion(version.data(), version.size()) == NVML_SUCCESS)
    gpus.driver_version = version.data();
  unsigned count = 0;
  if (const auto result = nvml.nvmlDeviceGetCount_v2(&count); result != NVML_SUCCESS) {
    return fail(ErrorCode::unreachable, "the NVIDIA driver does not count its GPUs: " + why(result));
  }
  for (unsigned i = 0; i < count; ++i) gpus.list.push_back(TRY(read_gpu(nvml, i)));
  if (nvml.nvmlShutdown != nullptr) nvml.nvmlShutdown();
  return gpus;
}

}  // namespace headgate::cli
