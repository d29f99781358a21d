// The GPUs of this process, as reported by the driver or NVML.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

struct SeenDevice {
  char uuid[ledger::kUuidBytes];  // "GPU-...", terminated
  std::uint64_t total_bytes;      // 0 if unknown
};

struct SeenDevices {
  SeenDevice list[ledger::kMaxDevices];
  std::uint32_t count = 0;
};

// Lists devices in CUDA's order, that of CUDA_VISIBLE_DEVICES. Returns false with the driver's `error` if it fails.
bool devices_by_cuda(SeenDevices& out, abi::CUresult& error);

// Lists devices in the order that CUDA would show them. `visible` is CUDA_VISIBLE_DEVICES, nullptr if unset. Assumes
// that NVML and CUDA use the same order, as with CUDA_DEVICE_ORDER=PCI_BUS_ID or equal cards.
bool devices_by_nvml(const char* visible, SeenDevices& out);

// Returns NVML's total for the card, part of which CUDA never shows. Percentages and the maximum limit refer to it, so
// that a process that asks NVML first, one that asks CUDA first, and `headgate run` agree. 0 if NVML fails.
std::uint64_t nvml_total_bytes(const char* uuid);

// Lists all GPUs that NVML shows, including hidden ones, with a separate reference. False if NVML fails.
bool all_devices(SeenDevices& out);

// The card's name; empty if neither NVML nor the driver reports it.
struct Model {
  char name[96];
};
Model model_of(const char* uuid);

// Writes "GPU-" and 8-4-4-4-12 hexadecimal digits.
void write_uuid(const abi::CUuuid& uuid, char (&out)[ledger::kUuidBytes]);

}  // namespace headgate::limiter
