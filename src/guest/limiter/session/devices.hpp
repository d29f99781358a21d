// The GPUs of this process, as the driver or NVML names them.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

struct SeenDevice {
  char uuid[ledger::kUuidBytes];  // "GPU-...", terminated
  std::uint64_t total_bytes;      // 0 where it could not be asked
};

struct SeenDevices {
  SeenDevice list[ledger::kMaxDevices];
  std::uint32_t count = 0;
};

// In CUDA's order, which is CUDA_VISIBLE_DEVICES's. False with the driver's error in `error` if it does not answer.
bool devices_by_cuda(SeenDevices& out, abi::CUresult& error);

// In the order that CUDA would show them: `visible` is the value of CUDA_VISIBLE_DEVICES, nullptr where unset. NVML's
// own order stands for CUDA's, as under CUDA_DEVICE_ORDER=PCI_BUS_ID or with equal cards.
bool devices_by_nvml(const char* visible, SeenDevices& out);

// What NVML calls the card's whole memory, some of which CUDA never shows: what a percentage is of and what a limit may
// come to, so that a process that asks NVML first, one that asks CUDA first and `headgate run` agree. 0 where NVML does
// not answer.
std::uint64_t nvml_total_bytes(const char* uuid);

// All GPUs that NVML shows, hidden ones too, by a reference of its own. False where it does not answer.
bool all_devices(SeenDevices& out);

// The card's name; empty where neither NVML nor the driver tells it.
struct Model {
  char name[96];
};
Model model_of(const char* uuid);

// "GPU-" and 8-4-4-4-12 hexadecimal digits.
void write_uuid(const abi::CUuuid& uuid, char (&out)[ledger::kUuidBytes]);

}  // namespace headgate::limiter
