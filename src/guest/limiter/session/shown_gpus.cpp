#include "guest/limiter/session/shown_gpus.hpp"

#include <atomic>
#include <cstring>

#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

// Numbers, not handles: after a shutdown the driver may give others. Racing threads store the same words.
struct Numbers {
  std::atomic<std::uint32_t> count;
  std::atomic<unsigned> drivers[ledger::kMaxDevices];
  std::atomic<bool> complete;
};
constinit Numbers numbers{};

struct Uuid {
  char text[96];  // a MIG slice's is longer than a GPU's
};

bool uuid_of(abi::nvmlDevice_t device, Uuid& out) {
  return forward(nvml.nvmlDeviceGetUUID, device, out.text, static_cast<unsigned>(sizeof out.text)) == abi::NVML_SUCCESS;
}

const char* shown_uuid(std::uint32_t number) { return session.held.devices[session.shown[number]].uuid; }

// Skips a GPU that has fallen off the bus, and looks for it again at the next call.
void learn() {
  unsigned count = 0;
  std::uint32_t known = 0;
  if (forward(nvml.nvmlDeviceGetCount_v2, &count) != abi::NVML_SUCCESS) return;
  for (std::uint32_t number = 0; number < session.shown_count; ++number) {
    for (unsigned i = 0; i < count; ++i) {
      abi::nvmlDevice_t device = nullptr;
      Uuid uuid;
      if (forward(nvml.nvmlDeviceGetHandleByIndex_v2, i, &device) != abi::NVML_SUCCESS || !uuid_of(device, uuid) ||
          std::strcmp(uuid.text, shown_uuid(number)) != 0)
        continue;
      numbers.drivers[known++].store(i, std::memory_order_relaxed);
      break;
    }
  }
  numbers.count.store(known, std::memory_order_relaxed);
  numbers.complete.store(known == session.shown_count, std::memory_order_release);
}

}  // namespace

std::uint32_t shown_gpus() {
  if (!sees_share() || session.shown_count == 0) return 0;
  if (!numbers.complete.load(std::memory_order_acquire)) learn();
  return numbers.count.load(std::memory_order_relaxed);
}

unsigned driver_number(std::uint32_t number) { return numbers.drivers[number].load(std::memory_order_relaxed); }

bool shown_number(abi::nvmlDevice_t device, unsigned& number) {
  const std::uint32_t count = shown_gpus();
  Uuid asked, shown;
  if (count == 0 || !uuid_of(device, asked)) return false;
  for (number = 0; number < count; ++number) {
    abi::nvmlDevice_t one = nullptr;
    if (forward(nvml.nvmlDeviceGetHandleByIndex_v2, driver_number(number), &one) == abi::NVML_SUCCESS &&
        uuid_of(one, shown) && std::strcmp(asked.text, shown.text) == 0)
      return true;
  }
  return false;
}

bool is_hidden(abi::nvmlDevice_t device) {
  Uuid uuid;
  if (shown_gpus() == 0 || !uuid_of(device, uuid)) return false;
  if (abi::nvmlDevice_t whole = nullptr; std::strncmp(uuid.text, "MIG-", 4) == 0) {
    if (forward(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device, &whole) != abi::NVML_SUCCESS) return false;
    return is_hidden(whole);
  }
  for (std::uint32_t i = 0; i < session.shown_count; ++i) {
    if (std::strcmp(uuid.text, shown_uuid(i)) == 0) return false;
  }
  return true;
}

void forget_nvml_numbers() {
  numbers.complete.store(false, std::memory_order_relaxed);
  numbers.count.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
