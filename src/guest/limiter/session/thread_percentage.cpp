#include "guest/limiter/session/thread_percentage.hpp"

#include <atomic>
#include <string_view>

#include "guest/grant/text.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/session/environment_grant.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"
#include "guest/limiter/session/registration.hpp"

namespace headgate::limiter {
namespace {

constexpr std::uint32_t kNotYet = ~0u;
std::atomic<std::uint32_t> noted{kNotYet};

// Returns 1..99; 0 if the driver's interpretation is uncertain, or there is no restriction.
std::uint32_t percentage_in(std::string_view text) {
  std::uint64_t value = 0;
  return text.size() <= 2 && grant::whole_number(text, 100, value) ? static_cast<std::uint32_t>(value) : 0;
}

// GPUs before Volta ignore the percentage.
bool obeyed_by(abi::CUdevice device) {
  int major = 0;
  return driver.cuDeviceGetAttribute != nullptr &&
         driver.cuDeviceGetAttribute(&major, abi::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
             abi::CUDA_SUCCESS &&
         major >= 7;
}

}  // namespace

void note_thread_percentage() {
  // In this mode each context reads the variable again.
  const char* const by_context = variable("CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING");
  const bool once = by_context == nullptr || *by_context == 0 || (by_context[0] == '0' && by_context[1] == 0);
  const char* const text = variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const std::uint32_t percent = once && text != nullptr ? percentage_in(text) : 0;
  std::uint32_t before = kNotYet;
  // It is unknown which of the two values the driver used.
  if (!noted.compare_exchange_strong(before, percent, std::memory_order_relaxed) && before != percent)
    noted.store(0, std::memory_order_relaxed);
}

void tell_thread_percentage(abi::CUdevice device, std::uint32_t index) {
  if (!seated() || index >= ledger::kMaxDevices) return;
  std::uint32_t percent = noted.load(std::memory_order_relaxed);
  if (percent == kNotYet || !obeyed_by(device)) percent = 0;
  own_books(index).sm_percent.store(percent, std::memory_order_relaxed);
  // Until a reading lists this process as a client, its time is held too. The daemon's own comes once a second.
  if (percent != 0) static_cast<void>(ask_for_reading());
}

std::uint32_t ceiling_beside_mps(std::uint32_t device, std::uint32_t ceiling_ppm) {
  const std::uint32_t percent = told_sm_percent(own_slot(), device);
  if (percent == 0 || ceiling_ppm >= ledger::kWholeGpu) return ceiling_ppm;
  const std::uint64_t left_ppm = std::uint64_t{ceiling_ppm} * 100 / percent;
  return left_ppm >= ledger::kWholeGpu ? kNoTimeLimit : static_cast<std::uint32_t>(left_ppm);
}

}  // namespace headgate::limiter
