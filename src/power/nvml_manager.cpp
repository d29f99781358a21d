#include "power/nvml_manager.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/bounded_command.hpp"
#include "base/now.hpp"
#include "base/utf8.hpp"
#include "config/power_settings.hpp"
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

class NvmlManager final : public GpuManager {
 public:
  NvmlManager(std::shared_ptr<NvmlSession> session, std::uint32_t index, std::optional<TimeSliceTool> time_slices)
      : session_(std::move(session)), index_(index), time_slices_(std::move(time_slices)) {
    (void)session_->use(index, [this](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      identity_.name = nvml::text_of(nvml->nvmlDeviceGetName, device);
      identity_.uuid = nvml::text_of(nvml->nvmlDeviceGetUUID, device);
      nvmlPciInfo_t pci{};
      if (nvml::call(nvml->nvmlDeviceGetPciInfo_v3, device, &pci)) identity_.pci_address = pci.busIdLegacy;
      return {};
    });
    identity_.has_energy_counter = read(Operation::get_cumulative_energy).has_value();
    if (const auto range = perform({.operation = Operation::get_power_limit_constraints}))
      identity_.limit_range =
          PowerRange{static_cast<std::uint32_t>(range->value), static_cast<std::uint32_t>(range->second)};
    if (const auto limit =
            figure<unsigned>("default power limit", &nvml::Functions::nvmlDeviceGetPowerManagementDefaultLimit))
      identity_.default_limit_mw = static_cast<std::uint32_t>(limit->value);
  }

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }

  Result<Reading> perform(const Command& command) override {
    using Nvml = nvml::Functions;
    switch (command.operation) {
      case Operation::set_persistence_mode:
        return call("persistence mode", &Nvml::nvmlDeviceSetPersistenceMode,
                    command.enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
      case Operation::set_power_limit: return set_power_limit(command.power_limit_mw);
      case Operation::set_gpu_locked_clocks:
        return lock("GPU clocks", &Nvml::nvmlDeviceSetGpuLockedClocks, command.clocks, NVML_CLOCK_GRAPHICS);
      case Operation::set_mem_locked_clocks:
        return lock("memory clocks", &Nvml::nvmlDeviceSetMemoryLockedClocks, command.clocks, NVML_CLOCK_MEM);
      case Operation::reset_gpu_locked_clocks:
        return call("reset of the GPU clocks", &Nvml::nvmlDeviceResetGpuLockedClocks);
      case Operation::reset_mem_locked_clocks:
        return call("reset of the memory clocks", &Nvml::nvmlDeviceResetMemoryLockedClocks);
      case Operation::reset_locked_clocks: return reset_each_clocks(*this);
      case Operation::set_compute_mode:
        return call("compute mode " + std::to_string(command.mode), &Nvml::nvmlDeviceSetComputeMode,
                    static_cast<nvmlComputeMode_t>(command.mode));
      case Operation::set_time_slice: return set_time_slice(command.time_slice);
      case Operation::get_power: return instant_power();
      case Operation::get_cumulative_energy:
        return figure<unsigned long long>("energy counter", &Nvml::nvmlDeviceGetTotalEnergyConsumption);
      case Operation::get_power_limit: return figure<unsigned>("power limit", &Nvml::nvmlDeviceGetPowerManagementLimit);
      case Operation::get_power_limit_constraints: {
        unsigned least_mw = 0, most_mw = 0;
        TRY(call("power limit range", &Nvml::nvmlDeviceGetPowerManagementLimitConstraints, &least_mw, &most_mw));
        return Reading{.value = least_mw, .second = most_mw};
      }
      case Operation::get_persistence_mode:
        return figure<nvmlEnableState_t>("persistence mode", &Nvml::nvmlDeviceGetPersistenceMode);
      case Operation::get_compute_mode:
        return figure<nvmlComputeMode_t>("compute mode", &Nvml::nvmlDeviceGetComputeMode);
      case Operation::get_time_slice: return time_slice();
    }
    return fail(ErrorCode::failed, "unknown operation");
  }

 private:
  Result<Reading> set_power_limit(std::uint32_t limit_mw) {
    auto done =
        call("power limit " + watts_text(limit_mw), &nvml::Functions::nvmlDeviceSetPowerManagementLimit, limit_mw);
    if (done || done.error().code != ErrorCode::usage) return done;
    if (const auto range = perform({.operation = Operation::get_power_limit_constraints}))
      done.error().hint = "accepted: " + watts_text(range->value) + " to " + watts_text(range->second);
    return done;
  }

  // The tool opens the driver too, so it is not run while the driver is let go of.
  Result<Reading> set_time_slice(std::uint32_t length) {
    if (!time_slices_) return fail(ErrorCode::unsupported, "time slice: there is no tool that sets it");
    TRY(session_->use(index_,
                      [&](const nvml::Library&, nvmlDevice_t) { return time_slices_->set(identity_.uuid, length); }));
    return Reading{};
  }
  Result<Reading> time_slice() {
    if (!time_slices_) return fail(ErrorCode::unsupported, "time slice: there is no tool that reads it");
    Result<std::uint32_t> length;
    TRY(session_->use(index_, [&](const nvml::Library&, nvmlDevice_t) -> Result<void> {
      length = time_slices_->read(identity_.uuid);
      return {};
    }));
    return Reading{.value = TRY(length), .second = 0};
  }

  Result<Reading> instant_power() {
    std::optional<std::uint32_t> power_mw;
    TRY(session_->use(index_, [&power_mw](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      nvml::FieldValue field{.id = kPowerInstant};
      if (nvml::call(nvml->nvmlDeviceGetFieldValues, device, 1, &field) && nvml::ok(field.result))
        power_mw = static_cast<std::uint32_t>(field.value);
      return {};
    }));
    // Drivers before NVML 12 only report the average of the last second.
    if (!power_mw) return figure<unsigned>("power draw", &nvml::Functions::nvmlDeviceGetPowerUsage);
    return Reading{.value = *power_mw, .second = 0};
  }

  // `function`: a member of nvml::Functions.
  template <typename Function, typename... Arguments>
  Result<Reading> call(const std::string& what, Function function, Arguments... arguments) {
    TRY(session_->use(index_, [&](const nvml::Library& nvml, nvmlDevice_t device) -> Result<void> {
      const auto pointer = nvml.operator->()->*function;
      const nvmlReturn_t result = pointer == nullptr ? NVML_ERROR_FUNCTION_NOT_FOUND : pointer(device, arguments...);
      if (nvml::ok(result)) return {};
      return std::unexpected(error_of(what, result));
    }));
    return Reading{};
  }

  template <typename Value, typename Function>
  Result<Reading> figure(const std::string& what, Function function) {
    Value value{};
    TRY(call(what, function, &value));
    return Reading{.value = static_cast<std::uint64_t>(value), .second = 0};
  }

  template <typename Function>
  Result<Reading> lock(const std::string& what, Function function, ClockRange clocks, nvmlClockType_t type) {
    const std::string wanted = what + " " + megahertz_text(clocks);
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

constexpr std::size_t kShownOutput = 300;

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (name == "LD_PRELOAD=" || std::ranges::any_of(more, [&](const auto& one) { return one.starts_with(name); }))
      continue;
    all.emplace_back(text);
  }
  return all;
}

ErrorCode code_of(const std::string& output) {
  if (output.contains("Not Supported") || output.contains("Function Not Found")) return ErrorCode::unsupported;
  return output.contains("Insufficient Permissions") ? ErrorCode::denied : ErrorCode::failed;
}

std::string_view hint_of(ErrorCode code) {
  if (code == ErrorCode::unsupported) return "it needs a GPU and a driver with compute policies";
  return code == ErrorCode::denied ? "the driver lets only root set it: run the daemon as root" : "";
}

}  // namespace

Result<std::shared_ptr<NvmlSession>> NvmlSession::open(const std::string& file) {
  std::shared_ptr<NvmlSession> session(new NvmlSession(file));
  TRY(session->reopen());
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
    uuids.push_back(device == nullptr ? "" : nvml::text_of(nvml->nvmlDeviceGetUUID, device));
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
      return fail(ErrorCode::unreachable, "the driver is released, so that a GPU can be reset",
                  "it is opened again within a minute");
    TRY(reopen());
  }
  return run();
}

Result<std::string> TimeSliceTool::ask(const std::string& gpu, const std::string& what) const {
  const auto outcome = run_bounded({.words = {options_.program, "compute-policy", "-i", gpu, what},
                                    .environment = environment_with(options_.environment),
                                    .timeout = options_.timeout});
  if (!outcome)
    return fail(ErrorCode::unsupported, "time slice: " + outcome.error().message,
                "install nvidia-smi, or name the program: power.nvidia_smi");
  if (outcome->succeeded()) return outcome->output;
  const std::string what_failed = "time slice: " + printable(options_.program, 80);
  if (outcome->timed_out)
    return fail(ErrorCode::failed,
                what_failed + " did not answer within " + std::to_string(options_.timeout.count()) + " ms");
  const std::string shown = printable(outcome->output, kShownOutput);
  const ErrorCode code = code_of(outcome->output);
  return fail(code, what_failed + " " + outcome->ending() + (shown.empty() ? "" : ": " + shown),
              std::string(hint_of(code)));
}

Result<std::uint32_t> TimeSliceTool::read(const std::string& gpu) const {
  const std::string output = TRY(ask(gpu, "--list"));
  if (const auto length = parse_time_slice(output)) return *length;
  return fail(ErrorCode::failed,
              "time slice: the list of compute policies is not understood: " + printable(output, kShownOutput));
}

Result<void> TimeSliceTool::set(const std::string& gpu, std::uint32_t length) const {
  TRY(ask(gpu, "--set-timeslice=" + std::to_string(length)));
  return {};
}

// A row is "|   0     Timeslice     Default   |".
std::optional<std::uint32_t> parse_time_slice(std::string_view output) {
  std::string text(output);
  std::ranges::transform(text, text.begin(), [](char c) {
    return c == '|' ? ' ' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::optional<std::uint32_t> found;
  std::istringstream lines(text);
  for (std::string line, gpu, name, value; std::getline(lines, line);) {
    if (!(std::istringstream(line) >> gpu >> name >> value) || name != "timeslice") continue;
    const auto length = config::parse_time_slice(value);
    if (!length || found) return std::nullopt;
    found = length;
  }
  return found;
}

}  // namespace headgate::power
