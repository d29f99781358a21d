// Memory and who holds it. A process is listed on a device while it has a context there.
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

using abi::nvmlDevice_t;
using abi::nvmlReturn_t;

constexpr unsigned kNoInstance = ~0U;  // GPU and compute instance where there is no MIG
constexpr unsigned kMemoryVersion2 = sizeof(abi::nvmlMemory_v2_t) | 2U << 24;

bool listed(const Account& account, std::uint32_t device) {
  return account.used == 1 && account.device == device && account.contexts > 0;
}

void describe(const Account& account, abi::nvmlProcessInfo_v1_t& out) {
  out = {};
  out.pid = static_cast<unsigned>(account.pid);
  out.usedGpuMemory = account.bytes + account.slack_bytes + account.context_bytes;
}

void describe(const Account& account, abi::nvmlProcessInfo_v2_t& out) {
  out = {};
  out.pid = static_cast<unsigned>(account.pid);
  out.usedGpuMemory = account.bytes + account.slack_bytes + account.context_bytes;
  out.gpuInstanceId = kNoInstance;
  out.computeInstanceId = kNoInstance;
}

template <typename Info>
nvmlReturn_t compute_processes(const char* function, nvmlDevice_t device, unsigned* count, Info* infos) {
  return on_device(function, device, [&](const DeviceView& view) {
    if (count == nullptr || (*count > 0 && infos == nullptr)) return abi::NVML_ERROR_INVALID_ARGUMENT;
    const unsigned room = *count;
    unsigned found = 0;
    for (const Account& account : view.state().accounts) {
      if (!listed(account, view.index())) continue;
      if (found < room) describe(account, infos[found]);
      ++found;
    }
    *count = found;
    return found <= room ? abi::NVML_SUCCESS : abi::NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

template <typename Info>
nvmlReturn_t no_processes(const char* function, nvmlDevice_t device, unsigned* count, Info* infos) {
  return on_device(function, device, [&](const DeviceView&) {
    if (count == nullptr || (*count > 0 && infos == nullptr)) return abi::NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return abi::NVML_SUCCESS;
  });
}

std::string command_of(unsigned pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string name;
  std::getline(file, name, '\0');
  return name;
}

}  // namespace
}  // namespace headgate::sim::nvml

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

extern "C" {

// Version 1 counts what is reserved as used, version 2 tells it apart: as the real one does.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return nvml::on_device("nvmlDeviceGetMemoryInfo", device, [&](const DeviceView& view) {
    if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = view.profile().memory_bytes;
    memory->used = view.profile().reserved_bytes + view.device().bytes;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  return nvml::on_device("nvmlDeviceGetMemoryInfo_v2", device, [&](const DeviceView& view) {
    if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvml::kMemoryVersion2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = view.profile().memory_bytes;
    memory->reserved = view.profile().reserved_bytes;
    memory->used = view.device().bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* bar1Memory) {
  return nvml::on_device("nvmlDeviceGetBAR1MemoryInfo", device, [&](const DeviceView& view) {
    if (bar1Memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    constexpr unsigned long long kMappedByTheDriver = 2ULL << 20;
    bar1Memory->bar1Total = view.profile().bar1_bytes;
    bar1Memory->bar1Used = kMappedByTheDriver;
    bar1Memory->bar1Free = bar1Memory->bar1Total - bar1Memory->bar1Used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                  nvmlProcessInfo_v1_t* infos) {
  return nvml::compute_processes("nvmlDeviceGetComputeRunningProcesses", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                     nvmlProcessInfo_v2_t* infos) {
  return nvml::compute_processes("nvmlDeviceGetComputeRunningProcesses_v2", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                     nvmlProcessInfo_t* infos) {
  return nvml::compute_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                   nvmlProcessInfo_v1_t* infos) {
  return nvml::no_processes("nvmlDeviceGetGraphicsRunningProcesses", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                      nvmlProcessInfo_v2_t* infos) {
  return nvml::no_processes("nvmlDeviceGetGraphicsRunningProcesses_v2", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                      nvmlProcessInfo_t* infos) {
  return nvml::no_processes("nvmlDeviceGetGraphicsRunningProcesses_v3", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                     nvmlProcessInfo_v1_t* infos) {
  return nvml::no_processes("nvmlDeviceGetMPSComputeRunningProcesses", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                        nvmlProcessInfo_v2_t* infos) {
  return nvml::no_processes("nvmlDeviceGetMPSComputeRunningProcesses_v2", device, infoCount, infos);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                        nvmlProcessInfo_t* infos) {
  return nvml::no_processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, infoCount, infos);
}

// The program's first word where /proc tells it, else the name the node has.
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return nvml::answer("nvmlSystemGetProcessName", [&](sim::Node& node) {
    if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
    std::string found = nvml::command_of(pid);
    if (found.empty()) {
      const sim::Node::Locked locked(node);
      for (const sim::Account& account : node.state().accounts) {
        if (account.used == 1 && static_cast<unsigned>(account.pid) == pid) found = account.comm;
      }
    }
    if (found.empty()) return NVML_ERROR_NOT_FOUND;
    found.resize(std::min<std::size_t>(found.size(), length - 1));
    return nvml::give_text(found, name, length);
  });
}

}  // extern "C"
}  // namespace headgate::abi
