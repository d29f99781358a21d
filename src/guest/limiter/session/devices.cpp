#include "guest/limiter/session/devices.hpp"

#include <cstring>
#include <string_view>

#include "guest/bare/text.hpp"
#include "guest/grant/text.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {
namespace {

bool describe_nvml_device(abi::nvmlDevice_t device, SeenDevice& out) {
  if (forward(nvml.nvmlDeviceGetUUID, device, out.uuid, static_cast<unsigned>(sizeof out.uuid)) != abi::NVML_SUCCESS) {
    return false;
  }
  abi::nvmlMemory_t memory{};
  out.total_bytes = forward(nvml.nvmlDeviceGetMemoryInfo, device, &memory) == abi::NVML_SUCCESS ? memory.total : 0;
  return true;
}

bool listed(const SeenDevices& devices, const SeenDevice& device) {
  for (std::uint32_t i = 0; i < devices.count; ++i) {
    if (std::strcmp(devices.list[i].uuid, device.uuid) == 0) return true;
  }
  return false;
}

// Matches an index or a prefix of exactly one UUID, ignoring case. Returns all.count if the token matches none.
std::uint32_t find_token(std::string_view token, const SeenDevices& all) {
  std::uint64_t number = 0;
  if (grant::whole_number(token, all.count, number)) return static_cast<std::uint32_t>(number);
  if (token.size() < 5) return all.count;
  std::uint32_t found = all.count;
  for (std::uint32_t i = 0; i < all.count; ++i) {
    if (!grant::starts_ignoring_case(all.list[i].uuid, token)) continue;
    if (found != all.count) return all.count;
    found = i;
  }
  return found;
}

}  // namespace

void write_uuid(const abi::CUuuid& uuid, char (&out)[ledger::kUuidBytes]) {
  bare::Text text(out);
  text.add("GPU-");
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.add('-');
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text.add("0123456789abcdef"[byte >> 4]).add("0123456789abcdef"[byte & 15]);
  }
}

std::uint64_t nvml_total_bytes(const char* uuid) {
  if (!load_nvml() || forward(nvml.nvmlInit_v2) != abi::NVML_SUCCESS) return 0;
  abi::nvmlDevice_t device = nullptr;
  abi::nvmlMemory_t memory{};
  const bool known = forward(nvml.nvmlDeviceGetHandleByUUID, uuid, &device) == abi::NVML_SUCCESS &&
                     forward(nvml.nvmlDeviceGetMemoryInfo, device, &memory) == abi::NVML_SUCCESS;
  forward(nvml.nvmlShutdown);
  return known ? memory.total : 0;
}

bool all_devices(SeenDevices& out) {
  if (!load_nvml() || forward(nvml.nvmlInit_v2) != abi::NVML_SUCCESS) return false;
  const bool known = devices_by_nvml(nullptr, out);
  forward(nvml.nvmlShutdown);
  return known;
}

Model model_of(const char* uuid) {
  Model model{};
  if (load_nvml() && forward(nvml.nvmlInit_v2) == abi::NVML_SUCCESS) {
    abi::nvmlDevice_t device = nullptr;
    const bool known = forward(nvml.nvmlDeviceGetHandleByUUID, uuid, &device) == abi::NVML_SUCCESS &&
                       forward(nvml.nvmlDeviceGetName, device, model.name, static_cast<unsigned>(sizeof model.name)) ==
                           abi::NVML_SUCCESS;
    forward(nvml.nvmlShutdown);
    if (known) return model;
  }
  int count = 0;
  if (forward(driver.cuDeviceGetCount, &count) != abi::CUDA_SUCCESS) return {};
  for (int i = 0; i < count; ++i) {
    abi::CUuuid own{};
    char text[ledger::kUuidBytes];
    if (forward(driver.cuDeviceGetUuid, &own, i) != abi::CUDA_SUCCESS) continue;
    write_uuid(own, text);
    if (std::strcmp(text, uuid) == 0 &&
        forward(driver.cuDeviceGetName, model.name, static_cast<int>(sizeof model.name), i) == abi::CUDA_SUCCESS)
      return model;
  }
  return {};
}

bool devices_by_cuda(SeenDevices& out, abi::CUresult& error) {
  out.count = 0;
  int count = 0;
  error = forward(driver.cuDeviceGetCount, &count);
  if (error != abi::CUDA_SUCCESS) return false;
  for (int i = 0; i < count && out.count < ledger::kMaxDevices; ++i) {
    abi::CUdevice device = 0;
    abi::CUuuid uuid{};
    error = forward(driver.cuDeviceGet, &device, i);
    if (error == abi::CUDA_SUCCESS) error = forward(driver.cuDeviceGetUuid, &uuid, device);
    if (error != abi::CUDA_SUCCESS) return false;
    SeenDevice& seen = out.list[out.count++];
    write_uuid(uuid, seen.uuid);
    std::size_t total = 0;
    seen.total_bytes = forward(driver.cuDeviceTotalMem_v2, &total, device) == abi::CUDA_SUCCESS ? total : 0;
  }
  return true;
}

bool devices_by_nvml(const char* visible, SeenDevices& out) {
  out.count = 0;
  unsigned count = 0;
  if (forward(nvml.nvmlDeviceGetCount_v2, &count) != abi::NVML_SUCCESS) return false;
  SeenDevices all;
  for (unsigned i = 0; i < count && all.count < ledger::kMaxDevices; ++i) {
    abi::nvmlDevice_t device = nullptr;
    if (forward(nvml.nvmlDeviceGetHandleByIndex_v2, i, &device) != abi::NVML_SUCCESS) return false;
    if (!describe_nvml_device(device, all.list[all.count])) return false;
    ++all.count;
  }
  if (visible == nullptr) {
    out = all;
    return true;
  }
  // As CUDA reads it: devices in the order written, up to the first token that is unknown or repeats a device.
  for (std::string_view rest(visible); !rest.empty();) {
    const std::size_t comma = grant::position(rest, ',');
    const std::uint32_t index = find_token(grant::trimmed(grant::first(rest, comma)), all);
    rest = grant::from(rest, comma + 1);
    if (index == all.count || listed(out, all.list[index])) break;
    out.list[out.count++] = all.list[index];
  }
  return true;
}

}  // namespace headgate::limiter
