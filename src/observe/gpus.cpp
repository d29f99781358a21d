#include "observe/gpus.hpp"

#include <string_view>

namespace headgate::observe {
namespace {

using namespace abi;
using nvml::ok;

// Returns one unsigned figure, if the driver has the function and the card the figure.
template <typename Ask, typename... Args>
std::optional<std::uint32_t> figure(Ask ask, Args... args) {
  unsigned value = 0;
  if (!nvml::call(ask, args..., &value)) return std::nullopt;
  return value;
}

template <typename Ask, typename... Args>
std::optional<std::uint64_t> count(Ask ask, Args... args) {
  unsigned long long value = 0;
  if (!nvml::call(ask, args..., &value)) return std::nullopt;
  return value;
}

// Bits of nvmlClocksThrottleReasons. "idle" and "application clocks" are no throttling that users complain of.
void read_throttle_reasons(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  constexpr struct {
    unsigned long long bit;
    const char* words;
  } kReasons[] = {{0x4, "power cap"},         {0x8, "hardware slowdown"}, {0x10, "sync boost"},
                  {0x20, "software thermal"}, {0x40, "hardware thermal"}, {0x80, "power brake"}};
  unsigned long long bits = 0;
  if (!nvml::call(nvml->nvmlDeviceGetCurrentClocksThrottleReasons, device, &bits)) return;
  for (const auto& [bit, text] : kReasons) {
    if ((bits & bit) != 0) gpu.throttle_reasons.emplace_back(text);
  }
}

void read_state(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  nvmlUtilization_t utilization{};
  if (nvml::call(nvml->nvmlDeviceGetUtilizationRates, device, &utilization)) {
    gpu.busy_ratio = utilization.gpu / 100.0;
    gpu.memory_busy_ratio = utilization.memory / 100.0;
  }
  // No launch goes through these engines, so no account has what shares do there: only this shows it.
  const auto engine = [device](auto ask) -> std::optional<double> {
    unsigned percent = 0, period_us = 0;
    if (!nvml::call(ask, device, &percent, &period_us)) return std::nullopt;
    return percent / 100.0;
  };
  gpu.encoder_busy_ratio = engine(nvml->nvmlDeviceGetEncoderUtilization);
  gpu.decoder_busy_ratio = engine(nvml->nvmlDeviceGetDecoderUtilization);
  gpu.temperature_celsius = figure(nvml->nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU);
  gpu.power_mw = figure(nvml->nvmlDeviceGetPowerUsage, device);
  gpu.power_limit_mw = figure(nvml->nvmlDeviceGetEnforcedPowerLimit, device);
  gpu.power_limit_requested_mw = figure(nvml->nvmlDeviceGetPowerManagementLimit, device);
  gpu.power_limit_default_mw = figure(nvml->nvmlDeviceGetPowerManagementDefaultLimit, device);
  unsigned least = 0, most = 0;
  if (nvml::call(nvml->nvmlDeviceGetPowerManagementLimitConstraints, device, &least, &most)) {
    gpu.power_limit_min_mw = least;
    gpu.power_limit_max_mw = most;
  }
  nvmlEnableState_t persistence{};
  if (nvml::call(nvml->nvmlDeviceGetPersistenceMode, device, &persistence))
    gpu.persistence = persistence == NVML_FEATURE_ENABLED;
  gpu.sm_clock_mhz = figure(nvml->nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM);
  gpu.memory_clock_mhz = figure(nvml->nvmlDeviceGetClockInfo, device, NVML_CLOCK_MEM);
  gpu.energy_mj = count(nvml->nvmlDeviceGetTotalEnergyConsumption, device);
  read_throttle_reasons(nvml, device, gpu);
}

void read_memory_errors(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  constexpr unsigned kCorrected = 0, kUncorrected = 1;  // nvmlMemoryErrorType_t
  constexpr unsigned kSinceLoaded = 0, kInItsLife = 1;  // nvmlEccCounterType_t: volatile, aggregate
  const auto errors = [&](unsigned type, unsigned counter) {
    return count(nvml->nvmlDeviceGetTotalEccErrors, device, type, counter);
  };
  gpu.ecc_corrected_errors = errors(kCorrected, kSinceLoaded);
  gpu.ecc_uncorrected_errors = errors(kUncorrected, kSinceLoaded);
  gpu.ecc_lifetime_corrected_errors = errors(kCorrected, kInItsLife);
  gpu.ecc_lifetime_uncorrected_errors = errors(kUncorrected, kInItsLife);
}

void read_links(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  gpu.pcie_generation = figure(nvml->nvmlDeviceGetCurrPcieLinkGeneration, device);
  gpu.pcie_width = figure(nvml->nvmlDeviceGetCurrPcieLinkWidth, device);
  gpu.pcie_replays = figure(nvml->nvmlDeviceGetPcieReplayCounter, device);
  constexpr unsigned kMaxLinks = 18;      // NVML_NVLINK_MAX_LINKS
  constexpr unsigned kKindsOfErrors = 5;  // nvmlNvLinkErrorCounter_t: replay, recovery, CRC of flits and of data, ECC
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    nvmlEnableState_t active{};
    if (!nvml::call(nvml->nvmlDeviceGetNvLinkState, device, link, &active)) break;
    gpu.nvlinks_active = gpu.nvlinks_active.value_or(0) + (active == NVML_FEATURE_ENABLED ? 1 : 0);
    for (unsigned kind = 0; kind < kKindsOfErrors; ++kind) {
      // Each generation of links counts only some of the kinds.
      if (const auto errors = count(nvml->nvmlDeviceGetNvLinkErrorCounter, device, link, kind))
        gpu.nvlink_errors = gpu.nvlink_errors.value_or(0) + *errors;
    }
  }
}

// Reads what all links carried. A driver without the sum over all links has no figure of a single link either.
void read_link_data(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  constexpr unsigned kSent = 138, kReceived = 139, kAllLinks = ~0U;  // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _RX
  constexpr std::uint64_t kUnit = 1024;
  nvml::FieldValue fields[2] = {{.id = kSent, .scope = kAllLinks}, {.id = kReceived, .scope = kAllLinks}};
  if (gpu.nvlinks_active.value_or(0) == 0 || !nvml::call(nvml->nvmlDeviceGetFieldValues, device, 2, fields)) return;
  const auto bytes = [](const nvml::FieldValue& field) -> std::optional<std::uint64_t> {
    if (!ok(field.result) || field.type != nvml::kUnsignedLongLong) return std::nullopt;
    return field.value * kUnit;
  };
  gpu.nvlink_tx_bytes = bytes(fields[0]);
  gpu.nvlink_rx_bytes = bytes(fields[1]);
}

// The driver numbers the places for slices; some of them may be empty.
void read_mig_instances(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  const unsigned places = figure(nvml->nvmlDeviceGetMaxMigDeviceCount, device).value_or(0);
  for (unsigned place = 0; place < places; ++place) {
    nvmlDevice_t slice = nullptr;
    if (!nvml::call(nvml->nvmlDeviceGetMigDeviceHandleByIndex, device, place, &slice)) continue;
    snapshot::MigInstance& instance = gpu.mig_instances.emplace_back();
    instance.uuid = nvml::text_of(nvml->nvmlDeviceGetUUID, slice);
    // "NVIDIA H200 MIG 1g.18gb"
    const std::string name = nvml::text_of(nvml->nvmlDeviceGetName, slice);
    constexpr std::string_view kMark = " MIG ";
    if (const auto mark = name.rfind(kMark); mark != std::string::npos)
      instance.profile = name.substr(mark + kMark.size());
    instance.gpu_instance = figure(nvml->nvmlDeviceGetGpuInstanceId, slice);
    instance.compute_instance = figure(nvml->nvmlDeviceGetComputeInstanceId, slice);
    nvmlMemory_t memory{};
    if (!nvml::call(nvml->nvmlDeviceGetMemoryInfo, slice, &memory)) continue;
    instance.memory_total_bytes = memory.total;
    instance.memory_used_bytes = memory.used;
  }
}

void read_modes(const nvml::Library& nvml, nvmlDevice_t device, snapshot::Gpu& gpu) {
  unsigned current = 0, pending = 0;
  if (nvml::call(nvml->nvmlDeviceGetMigMode, device, &current, &pending)) gpu.mig = current != 0;
  if (gpu.mig == true) read_mig_instances(nvml, device, gpu);
  nvmlEnableState_t ecc{}, ecc_pending{};
  if (nvml::call(nvml->nvmlDeviceGetEccMode, device, &ecc, &ecc_pending)) gpu.ecc = ecc == NVML_FEATURE_ENABLED;
  nvmlComputeMode_t mode{};
  if (nvml::call(nvml->nvmlDeviceGetComputeMode, device, &mode)) {
    // No driver has set 1 (exclusive thread) since CUDA 8.
    gpu.compute_mode = mode == 0 ? "default" : mode == 2 ? "prohibited" : "exclusive process";
  }
}

void read_utilization(const nvml::Library& nvml, nvmlDevice_t device, const std::string& uuid, std::uint64_t since_us,
                      std::vector<DriverProcess>& processes) {
  if (nvml->nvmlDeviceGetProcessUtilization == nullptr) return;
  using Sample = nvmlProcessUtilizationSample_t;
  const auto samples = nvml::read_rows<Sample>(256, [&](Sample* room, unsigned* count) {
    return nvml->nvmlDeviceGetProcessUtilization(device, room, count, since_us);
  });
  if (!samples) return;
  // The mean over a process's samples; NVML answers NOT_FOUND if nothing ran.
  for (DriverProcess& process : processes) {
    if (process.uuid != uuid) continue;
    double sum = 0;
    unsigned n = 0;
    for (const Sample& sample : *samples) {
      if (sample.pid != process.pid || sample.smUtil > 100) continue;
      sum += sample.smUtil;
      ++n;
      process.at_work |= (sample.smUtil | sample.memUtil | sample.encUtil | sample.decUtil) != 0;
    }
    if (n > 0) process.busy_ratio = sum / n / 100.0;
  }
}

}  // namespace

Result<DriverSnapshot> read_driver(const nvml::Library& nvml, std::uint64_t samples_since_us) {
  DriverSnapshot snapshot;
  snapshot.driver_version = nvml.driver_version();
  unsigned count = 0;
  if (const auto result = nvml->nvmlDeviceGetCount_v2(&count); !ok(result))
    return fail(ErrorCode::unreachable, "the NVIDIA driver does not count its GPUs: " + nvml::words(result));
  for (unsigned index = 0; index < count; ++index) {
    snapshot::Gpu gpu;
    gpu.index = index;
    nvmlDevice_t device = nullptr;
    if (const auto result = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device); !ok(result)) {
      gpu.model = "does not answer: " + nvml::words(result);
      snapshot.gpus.push_back(gpu);
      continue;
    }
    gpu.uuid = nvml::text_of(nvml->nvmlDeviceGetUUID, device);
    gpu.model = nvml::text_of(nvml->nvmlDeviceGetName, device);
    nvmlPciInfo_t pci{};
    if (nvml::call(nvml->nvmlDeviceGetPciInfo_v3, device, &pci)) gpu.pci_bus_id = pci.busId;
    int major = 0, minor = 0;
    if (nvml::call(nvml->nvmlDeviceGetCudaComputeCapability, device, &major, &minor) && major > 0)
      gpu.compute_capability_major = static_cast<std::uint32_t>(major);
    read_memory(nvml, device, gpu.uuid, snapshot);
    if (const auto card = snapshot.cards.find(gpu.uuid); card != snapshot.cards.end()) {
      gpu.memory_total_bytes = card->second.total_bytes;
      gpu.memory_used_bytes = card->second.used_bytes;
      gpu.memory_free_bytes = card->second.free_bytes;
      gpu.memory_reserved_bytes = card->second.reserved_bytes;
    }
    read_state(nvml, device, gpu);
    read_memory_errors(nvml, device, gpu);
    read_links(nvml, device, gpu);
    read_link_data(nvml, device, gpu);
    read_modes(nvml, device, gpu);
    read_utilization(nvml, device, gpu.uuid, samples_since_us, snapshot.processes);
    snapshot.gpus.push_back(std::move(gpu));
  }
  return snapshot;
}

}  // namespace headgate::observe
