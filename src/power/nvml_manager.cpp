#include "power/nvml_manager.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/now.hpp"
#include "power/command.hpp"

namespace headgate::power {
namespace {

using namespace abi;

// nvmlFieldValue_t's NVML_FI_DEV_POWER_INSTANT, since NVML 12.
constexpr unsigned kPowerInstant = 186;

ErrorCode code_of(nvmlReturn_t result) {
  switch (result) {
    case NVML_ERROR_NO_PERMISSION: return ErrorCode::denied;
    case NVML_ERROR_INVALID_ARGUMENT: return ErrorCode::usage;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND: return ErrorCode::unsupported;
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_DRIVER_NOT_LOADED:
    case NVML_ERROR_UNINITIALIZED: return ErrorCode::unreachable;
    default: return ErrorCode::failed;
  }
}

std::string reason_of(nvmlReturn_t result) {
  switch (result) {
    case NVML_ERROR_INVALID_ARGUMENT: return "the driver does not accept this value";
    case NVML_ERROR_NOT_SUPPORTED: return "this GPU does not support it";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "this driver does not have the function";
    default: return nvml::words(result);
  }
}

Error error_of(const std::string& what, nvmlReturn_t result) {
  const ErrorCode code = code_of(result);
  return {code, what + ": " + reason_of(result),
          code == ErrorCode::denied ? "the driver lets only root set it: run the daemon as root" : ""};
}

std::string text_of(nvmlReturn_t (*ask)(nvmlDevice_t, char*, unsigned), nvmlDevice_t device) {
  std::array<char, 96> text{};
  return ask != nullptr && nvml::ok(ask(device, text.data(), text.size())) ? text.data() : "";
}

class NvmlManager final : public GpuManager {
 public:
  NvmlManager(std::shared_ptr<NvmlSession> session, std::uint32_t index, std::optional<TimeSliceTool> time_slices)
      : session_(std::move(session)), index_(index), time_slices_(std::move(time_slices)) {
    (void)session_->use(index, [this](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      identity_.name = text_of(nvml->nvmlDeviceGetName, device);
      identity_.uuid = text_of(nvml->nvmlDeviceGetUUID, device);
      nvmlPciInfo_t pci{};
      if (nvml->nvmlDeviceGetPciInfo_v3 != nullptr && nvml::ok(nvml->nvmlDeviceGetPciInfo_v3(device, &pci)))
        identity_.pci_address = pci.busIdLegacy;
      return {};
    });
    identity_.has_energy_counter = total_energy_mj().has_value();
    if (const auto range = power_limit_range()) identity_.limit_range = *range;
    if (const auto limit = figure("default power limit", &nvml::Functions::nvmlDeviceGetPowerManagementDefaultLimit))
      identity_.default_limit_mw = *limit;
  }

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }

  Result<void> set_persistence_mode(bool enabled) override {
    return call("persistence mode", &nvml::Functions::nvmlDeviceSetPersistenceMode,
                enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
  }
  Result<void> set_power_limit(std::uint32_t limit_mw) override {
    auto done =
        call("power limit " + watts_text(limit_mw), &nvml::Functions::nvmlDeviceSetPowerManagementLimit, limit_mw);
    if (done || done.error().code != ErrorCode::usage) return done;
    if (const auto range = power_limit_range())
      done.error().hint = "accepted: " + watts_text(range->min_mw) + " to " + watts_text(range->max_mw);
    return done;
  }
  Result<void> set_gpu_locked_clocks(ClockRange clocks) override {
    return lock("GPU clocks", &nvml::Functions::nvmlDeviceSetGpuLockedClocks, clocks, NVML_CLOCK_GRAPHICS);
  }
  Result<void> set_mem_locked_clocks(ClockRange clocks) override {
    return lock("memory clocks", &nvml::Functions::nvmlDeviceSetMemoryLockedClocks, clocks, NVML_CLOCK_MEM);
  }
  Result<void> reset_gpu_locked_clocks() override {
    return call("reset of the GPU clocks", &nvml::Functions::nvmlDeviceResetGpuLockedClocks);
  }
  Result<void> reset_mem_locked_clocks() override {
    return call("reset of the memory clocks", &nvml::Functions::nvmlDeviceResetMemoryLockedClocks);
  }

  Result<void> set_compute_mode(std::uint32_t mode) override {
    return call("compute mode " + std::to_string(mode), &nvml::Functions::nvmlDeviceSetComputeMode,
                static_cast<nvmlComputeMode_t>(mode));
  }

  // The tool opens the driver too, so it is not run while the driver is let go of.
  Result<void> set_time_slice(std::uint32_t length) override {
    if (!time_slices_) return GpuManager::set_time_slice(length);
    return session_->use(index_,
                         [&](const nvml::Library&, nvmlDevice_t) { return time_slices_->set(identity_.uuid, length); });
  }
  Result<std::uint32_t> time_slice() override {
    if (!time_slices_) return GpuManager::time_slice();
    std::uint32_t length = 0;
    auto used = session_->use(index_, [&](const nvml::Library&, nvmlDevice_t) -> Result<void> {
      length = TRY(time_slices_->read(identity_.uuid));
      return {};
    });
    if (!used) return std::unexpected(used.error());
    return length;
  }

  Result<std::uint32_t> instant_power_mw() override {
    std::optional<std::uint32_t> power;
    auto used = session_->use(index_, [&power](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      nvml::FieldValue field{.id = kPowerInstant};
      if (nvml->nvmlDeviceGetFieldValues != nullptr && nvml::ok(nvml->nvmlDeviceGetFieldValues(device, 1, &field)) &&
          nvml::ok(field.result))
        power = static_cast<std::uint32_t>(field.value);
      return {};
    });
    if (!used) return std::unexpected(used.error());
    // Drivers before NVML 12 only report the average of the last second.
    return power ? Result<std::uint32_t>(*power) : figure("power draw", &nvml::Functions::nvmlDeviceGetPowerUsage);
  }
  Result<std::uint64_t> total_energy_mj() override {
    unsigned long long energy = 0;
    if (auto done = call("energy counter", &nvml::Functions::nvmlDeviceGetTotalEnergyConsumption, &energy); !done)
      return std::unexpected(done.error());
    return energy;
  }
  Result<std::uint32_t> power_limit_mw() override {
    return figure("power limit", &nvml::Functions::nvmlDeviceGetPowerManagementLimit);
  }
  Result<PowerRange> power_limit_range() override {
    PowerRange range;
    if (auto done = call("power limit range", &nvml::Functions::nvmlDeviceGetPowerManagementLimitConstraints,
                         &range.min_mw, &range.max_mw);
        !done)
      return std::unexpected(done.error());
    return range;
  }
  Result<bool> persistence_mode() override {
    nvmlEnableState_t mode{};
    if (auto done = call("persistence mode", &nvml::Functions::nvmlDeviceGetPersistenceMode, &mode); !done)
      return std::unexpected(done.error());
    return mode == NVML_FEATURE_ENABLED;
  }
  Result<std::uint32_t> compute_mode() override {
    nvmlComputeMode_t mode{};
    if (auto done = call("compute mode", &nvml::Functions::nvmlDeviceGetComputeMode, &mode); !done)
      return std::unexpected(done.error());
    return static_cast<std::uint32_t>(mode);
  }

 private:
  // `function`: a member of nvml::Functions.
  template <typename Function, typename... Arguments>
  Result<void> call(const std::string& what, Function function, Arguments... arguments) {
    return session_->use(index_, [&](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      const auto pointer = nvml.operator->()->*function;
      const nvmlReturn_t result = pointer == nullptr ? NVML_ERROR_FUNCTION_NOT_FOUND : pointer(device, arguments...);
      if (nvml::ok(result)) return {};
      return std::unexpected(error_of(what, result));
    });
  }

  template <typename Function>
  Result<std::uint32_t> figure(const std::string& what, Function function) {
    unsigned value = 0;
    if (auto done = call(what, function, &value); !done) return std::unexpected(done.error());
    return value;
  }

  template <typename Function>
  Result<void> lock(const std::string& what, Function function, ClockRange clocks, nvmlClockType_t type) {
    const std::string wanted =
        what + " " + std::to_string(clocks.min_mhz) + " to " + std::to_string(clocks.max_mhz) + " MHz";
    if (clocks.min_mhz > clocks.max_mhz)
      return fail(ErrorCode::usage, wanted + ": the minimum is above the maximum",
                  "accepted: a minimum, then a maximum");
    auto done = call(wanted, function, clocks.min_mhz, clocks.max_mhz);
    unsigned top = 0;
    if (!done && done.error().code == ErrorCode::usage &&
        call("top clock", &nvml::Functions::nvmlDeviceGetMaxClockInfo, type, &top))
      done.error().hint = "accepted: clocks that the GPU supports, at most " + std::to_string(top) + " MHz";
    return done;
  }

  const std::shared_ptr<NvmlSession> session_;  // shared by the managers of all GPUs of one driver
  const std::uint32_t index_;
  const std::optional<TimeSliceTool> time_slices_;
  GpuIdentity identity_;
};

}  // namespace

Result<std::shared_ptr<NvmlSession>> NvmlSession::open(const std::string& file) {
  std::shared_ptr<NvmlSession> session(new NvmlSession(file));
  if (auto opened = session->reopen(); !opened) return std::unexpected(opened.error());
  return session;
}

std::vector<std::unique_ptr<GpuManager>> NvmlSession::managers(const std::shared_ptr<NvmlSession>& session,
                                                               const std::optional<TimeSliceTool>& time_slices) {
  std::vector<std::unique_ptr<GpuManager>> managers;
  for (std::uint32_t index = 0; index < session->uuids_.size(); ++index)
    managers.push_back(std::make_unique<NvmlManager>(session, index, time_slices));
  return managers;
}

Result<void> NvmlSession::reopen() {
  nvml::Library nvml = TRY(nvml::Library::open(file_));
  unsigned count = 0;
  if (const auto result = nvml->nvmlDeviceGetCount_v2(&count); !nvml::ok(result))
    return fail(ErrorCode::unreachable, "the number of GPUs: " + nvml::words(result));
  std::vector<std::string> uuids;
  std::vector<nvmlDevice_t> devices;
  for (unsigned index = 0; index < count; ++index) {
    nvmlDevice_t device = nullptr;
    if (const auto result = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device); !nvml::ok(result)) device = nullptr;
    devices.push_back(device);
    uuids.push_back(device == nullptr ? "" : text_of(nvml->nvmlDeviceGetUUID, device));
  }
  if (uuids_.empty()) uuids_ = uuids;
  // A reset may change a GPU's index, so managers follow the UUID.
  devices_.assign(uuids_.size(), nullptr);
  for (std::size_t i = 0; i < uuids_.size(); ++i) {
    const auto found = std::ranges::find(uuids, uuids_[i]);
    if (found != uuids.end()) devices_[i] = devices[static_cast<std::size_t>(found - uuids.begin())];
  }
  library_ = std::move(nvml);
  return {};
}

void NvmlSession::release(std::chrono::nanoseconds pause) {
  const std::unique_lock lock(mutex_);
  library_.reset();
  closed_until_ns_ = steady_now_ns() + static_cast<std::uint64_t>(pause.count());
}

Result<void> NvmlSession::use(std::uint32_t index,
                              const std::function<Result<void>(const nvml::Library&, nvmlDevice_t)>& work) {
  const auto run = [&]() -> Result<void> {
    if (devices_[index] == nullptr)
      return fail(ErrorCode::unreachable, "GPU " + std::to_string(index) + ": the driver does not know it");
    return work(*library_, devices_[index]);
  };
  {
    const std::shared_lock lock(mutex_);
    if (library_) return run();
  }
  const std::unique_lock lock(mutex_);
  if (!library_) {
    if (steady_now_ns() < closed_until_ns_)
      return fail(ErrorCode::unreachable, "the driver is let go of, so that a GPU can be reset",
                  "it is opened again within a minute");
    if (auto opened = reopen(); !opened) return opened;
  }
  return run();
}

}  // namespace headgate::power
