// Device attributes, names and limits.
#include <cstring>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {
namespace {

// What the device can do. By number, from cuda.h: stream priorities, concurrent access to managed memory, wide and NOR
// stream waits, virtual memory, IPC events.
constexpr int kYes[] = {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,        CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
                        CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                        CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,     CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
                        CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED};
constexpr int kYesByNumber[] = {78, 89, 93, 94, 102, 103, 122, 123, 125};

int attribute(const Profile& p, int which, std::uint32_t node_device) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return static_cast<int>(p.max_threads_per_block);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return static_cast<int>(p.shared_bytes_per_block);
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case 11: return 2147483647;  // MAX_PITCH
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return static_cast<int>(p.registers_per_block);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return static_cast<int>(p.sm_clock_max_mhz * 1000);
    case 14: return 512;                         // TEXTURE_ALIGNMENT
    case 17: return p.watchdog_ns != 0 ? 1 : 0;  // KERNEL_EXEC_TIMEOUT
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: {
      const std::uint32_t percent = library().state().processes[library().node->process()].mps_percent;
      return static_cast<int>(percent != 0 ? mps_sms(p, percent) : p.sm_count);
    }
    case 20: return static_cast<int>(library().state().nvml[node_device].compute_mode);  // COMPUTE_MODE
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: return library().state().nvml[node_device].ecc_off_now == 0 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return static_cast<int>(pci_bus(p, node_device));
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return static_cast<int>(p.pci_domain);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return static_cast<int>(p.memory_clock_max_mhz * 1000);
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return static_cast<int>(p.memory_bus_bits);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return static_cast<int>(p.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return static_cast<int>(p.max_threads_per_sm);
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return static_cast<int>(p.copy_engines);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return static_cast<int>(p.capability_major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return static_cast<int>(p.capability_minor);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return static_cast<int>(p.shared_bytes_per_sm);
    case 82: return 65536;  // MAX_REGISTERS_PER_MULTIPROCESSOR
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return static_cast<int>(p.shared_bytes_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return static_cast<int>(p.max_blocks_per_sm);
    default: return static_cast<int>(std::ranges::count(kYes, which) + std::ranges::count(kYesByNumber, which));
  }
}

CUresult uuid(CUuuid* out, CUdevice device) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto bytes = uuid_bytes(library().profile(), library().visible[device]);
  std::memcpy(out->bytes, bytes.data(), sizeof out->bytes);
  return CUDA_SUCCESS;
}

CUresult total(std::size_t* bytes, CUdevice device) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return give(bytes, library().profile().memory_bytes - library().profile().reserved_bytes);
}

void put_text(char* to, int length, const char* from) {
  std::strncpy(to, from, static_cast<std::size_t>(length) - 1);
  to[length - 1] = 0;
}

}  // namespace

SIM_API CUresult cuDeviceGetCount(int* count) {
  SIM_ENTER(cuDeviceGetCount, count);
  return give(count, library().visible.size());
}
SIM_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  SIM_ENTER(cuDeviceGet, device);
  if (!known_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  return give(device, ordinal);
}
SIM_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  SIM_ENTER(cuDeviceGetName);
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  put_text(name, length, library().profile().model);
  return CUDA_SUCCESS;
}
SIM_CALL(cuDeviceGetUuid, (CUuuid * out, CUdevice device), uuid(out, device))
SIM_CALL(cuDeviceGetUuid_v2, (CUuuid * out, CUdevice device), uuid(out, device))
SIM_CALL(cuDeviceTotalMem_v2, (std::size_t* bytes, CUdevice device), total(bytes, device))
SIM_API CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice device) {
  SIM_ENTER(cuDeviceTotalMem);
  std::size_t all = 0;
  SIM_TRY(total(bytes ? &all : nullptr, device));
  return give(bytes, all > 0xffffffffu ? 0xffffffffu : static_cast<unsigned>(all));
}
SIM_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  SIM_ENTER(cuDeviceGetAttribute);
  SIM_TRY(static_cast<CUresult>(fault_on("cuDeviceGetAttribute", static_cast<std::uint32_t>(which))));
  if (!value || which == 0 || which > 200) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return give(value, attribute(library().profile(), static_cast<int>(which), library().visible[device]));
}
SIM_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  SIM_ENTER(cuDeviceComputeCapability, major, minor);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = static_cast<int>(library().profile().capability_major);
  return give(minor, library().profile().capability_minor);
}
SIM_API CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  SIM_ENTER(cuDeviceGetProperties, properties);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Profile& p = library().profile();
  *properties = {.maxThreadsPerBlock = static_cast<int>(p.max_threads_per_block),
                 .maxThreadsDim = {1024, 1024, 64},
                 .maxGridSize = {2147483647, 65535, 65535},
                 .sharedMemPerBlock = static_cast<int>(p.shared_bytes_per_block),
                 .totalConstantMemory = 65536,
                 .SIMDWidth = 32,
                 .memPitch = 2147483647,
                 .regsPerBlock = static_cast<int>(p.registers_per_block),
                 .clockRate = static_cast<int>(p.sm_clock_max_mhz * 1000),
                 .textureAlign = 512};
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  SIM_ENTER(cuDeviceGetPCIBusId);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  put_text(id, length, pci_bus_id_legacy(library().profile(), library().visible[device]).data());
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  SIM_ENTER(cuDeviceGetByPCIBusId, device, id);
  for (std::size_t d = 0; d < library().visible.size(); ++d) {
    const std::string name = pci_bus_id_legacy(library().profile(), library().visible[d]).data();
    if (::strcasecmp(id, name.c_str()) != 0 && ::strcasecmp(id, name.substr(5).c_str()) != 0) continue;
    return give(device, d);
  }
  return CUDA_ERROR_INVALID_DEVICE;
}
SIM_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  SIM_ENTER(cuDeviceCanAccessPeer, can);
  if (!known_device(device) || !known_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  return give(can, device != peer);
}

}  // namespace headgate::sim::driver
