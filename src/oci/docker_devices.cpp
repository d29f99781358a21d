#include "oci/docker_devices.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "base/utf8.hpp"
#include "oci/json_text.hpp"

namespace headgate::oci {
namespace {

constexpr std::string_view kCdiDriver = "cdi", kNvidiaCdi = "nvidia.cdi", kNvidiaHook = "nvidia.runtime-hook",
                           kNvidia = "nvidia", kAmd = "amd", kHookProgram = "nvidia-container-runtime-hook";
// Those of NVIDIA's driver; no others are valid in the container's list of capabilities.
const std::vector<std::string> kDriverCapabilities = {"compute", "compat32", "graphics", "utility", "video", "display"};

bool has_nvidia(const DockerNode& node) { return node.nvidia_cdi_hook || !node.nvidia_runtime_hook.empty(); }

std::unexpected<Error> no_driver(const DeviceRequest& request, const DockerNode& node) {
  std::vector<std::string> lists;
  for (const auto& list : request.capabilities) lists.push_back("[" + printable(joined(list, " "), 200) + "]");
  const std::string known = joined(device_drivers(node), ", ", &DeviceDriver::name);
  return fail(ErrorCode::usage,
              "could not select device driver \"" + printable(request.driver, 80) + "\" with capabilities: [" +
                  joined(lists, " ") + "]",
              known.empty() ? "this node has none: install NVIDIA's container toolkit, then restart dockerd"
                            : "this node has: " + known);
}

// One request for one driver. Each method takes a copy of the configuration and returns it edited.
class Application {
 public:
  using Edited = Result<ContainerConfig>;
  using Road = Edited (Application::*)(ContainerConfig config) const;

  Application(const DeviceRequest& request, const std::vector<std::string>& selected, const DockerNode& node)
      : request_(request), selected_(selected), node_(node) {}

  // The cdi driver: names are complete.
  [[nodiscard]] Edited cdi(ContainerConfig config) const {
    if (request_.count != 0) return fail(ErrorCode::usage, "unexpected count in CDI device request");
    if (!request_.options.empty()) return fail(ErrorCode::usage, "unexpected options in CDI device request");
    return inject(std::move(config), request_.ids);
  }
  [[nodiscard]] Edited nvidia_cdi(ContainerConfig config) const {
    return qualified(std::move(config), "nvidia.com/gpu");
  }
  [[nodiscard]] Edited amd_cdi(ContainerConfig config) const {
    if (!node_.devices.has_vendor("amd.com"))
      return fail(ErrorCode::not_found,
                  node_.devices.has_vendor("nvidia.com")
                      ? "AMD CDI spec not found"
                      : "failed to discover GPU vendor from CDI: no known GPU vendor found",
                  "after NVIDIA's container toolkit was installed, restart dockerd");
    return qualified(std::move(config), "amd.com/gpu");
  }
  [[nodiscard]] Edited nvidia_hook(ContainerConfig config) const {
    const auto devices = TRY(requested_devices(request_));
    if (devices.empty()) return config;
    if (node_.nvidia_runtime_hook.empty())
      return fail(ErrorCode::not_found, std::string(kHookProgram) + " is not on PATH");
    config.append_variable("NVIDIA_VISIBLE_DEVICES", joined(devices, ","));
    std::vector<std::string> capabilities;
    for (const std::string& each : selected_)
      if (std::ranges::find(kDriverCapabilities, each) != kDriverCapabilities.end()) capabilities.push_back(each);
    if (!capabilities.empty()) config.append_variable("NVIDIA_DRIVER_CAPABILITIES", joined(capabilities, ","));
    Json hook = {{"path", node_.nvidia_runtime_hook}, {"args", {kHookProgram, "prestart"}}};
    if (!node_.environment.empty()) hook["env"] = node_.environment;
    config.append_hook("prestart", std::move(hook));
    return config;
  }
  [[nodiscard]] Edited amd_variable(ContainerConfig config) const {
    auto devices = TRY(requested_devices(request_));
    config.append_variable("AMD_VISIBLE_DEVICES", devices.empty() ? "void" : joined(devices, ","));
    return config;
  }

  // Returns the result of the first method that succeeds. Errors: those of all methods, joined.
  [[nodiscard]] Edited first_of(const std::vector<Road>& roads, const ContainerConfig& config,
                                std::vector<std::string>& warnings) const {
    std::optional<Error> failed;
    for (const Road road : roads) {
      auto edited = (this->*road)(config);
      if (edited) {
        if (failed) warnings.push_back("ignored: " + failed->message);
        return edited;
      }
      if (!failed) failed = edited.error();
      else if (failed->message != edited.error().message) failed->message += "; " + edited.error().message;
    }
    return std::unexpected(std::move(*failed));
  }

 private:
  [[nodiscard]] Edited qualified(ContainerConfig config, const std::string& kind) const {
    auto devices = TRY(requested_devices(request_));
    if (devices.empty()) return config;
    if (!node_.cdi)
      return fail(ErrorCode::unsupported,
                  "no CDI device driver registered: " + no_driver(request_, node_).error().message);
    for (std::string& each : devices)
      if (!each.contains('=')) each = kind + "=" + each;
    return inject(std::move(config), devices);
  }
  [[nodiscard]] Edited inject(ContainerConfig config, const std::vector<std::string>& names) const {
    if (names.empty()) return config;
    const auto failed = [](Error error) {
      error.message = "CDI device injection failed: " + error.message;
      return std::unexpected(std::move(error));
    };
    const auto edits = node_.devices.edits_of(names);
    if (!edits) return failed(edits.error());
    if (auto applied = config.apply(*edits, node_.find_node); !applied) return failed(applied.error());
    return config;
  }

  const DeviceRequest& request_;
  const std::vector<std::string>& selected_;
  const DockerNode& node_;
};

std::vector<Application::Road> roads_of(std::string_view driver, const DockerNode& node) {
  if (driver == kCdiDriver) return {&Application::cdi};
  if (driver == kNvidiaCdi) return {&Application::nvidia_cdi};
  if (driver == kNvidiaHook) return {&Application::nvidia_hook};
  std::vector<Application::Road> roads;
  if (driver == kNvidia) {
    if (node.nvidia_cdi_hook) roads.push_back(&Application::nvidia_cdi);
    if (!node.nvidia_runtime_hook.empty()) roads.push_back(&Application::nvidia_hook);
  } else {
    if (node.cdi) roads.push_back(&Application::amd_cdi);
    if (node.amd_runtime) roads.push_back(&Application::amd_variable);
  }
  if (node.first == FirstRoad::hook) std::ranges::reverse(roads);
  return roads;
}

Result<ContainerConfig> apply_one(const ContainerConfig& config, const DeviceRequest& request, const DockerNode& node,
                                  std::vector<std::string>& warnings) {
  const auto drivers = device_drivers(node);
  const DeviceDriver* driver = nullptr;
  std::vector<std::string> selected;
  for (const DeviceDriver& each : drivers) {
    if (request.driver.empty() ? each.capabilities.empty() : each.name != request.driver) continue;
    const auto* matched = match_capabilities(request, each.capabilities);
    if (matched == nullptr && request.driver.empty()) continue;
    driver = &each;
    if (matched != nullptr) selected = *matched;
    break;
  }
  if (driver == nullptr) return no_driver(request, node);
  const Application application(request, selected, node);
  auto edited = TRY(application.first_of(roads_of(driver->name, node), config, warnings));
  // Only NVIDIA devices have requirements to check. An unchanged configuration requested nothing.
  if (driver->name.starts_with(kNvidia) && edited != config) TRY(check_requirements(config.environment(), node.gpus));
  return edited;
}

constexpr JsonBounds kRequestBounds = {.bytes = 1 << 20, .depth = 8};
constexpr std::string_view kFields = "Driver, Count, DeviceIDs, Capabilities, Options";

std::unexpected<Error> refuse_at(const std::string& at, const std::string& what, const std::string& accepted = {}) {
  return fail(ErrorCode::usage, at + ": " + what, accepted.empty() ? "" : "accepted: " + accepted);
}

// Returns true for text that is safe to pass to programs: not empty and without control characters.
bool is_plain(const std::string& text) {
  return !text.empty() &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

Result<std::string> word(const Json& json, const std::string& at) {
  if (!json.is_string()) return refuse_at(at, "is no text");
  const auto& text = json.get_ref<const std::string&>();
  if (text.empty()) return refuse_at(at, "is empty");
  if (!is_plain(text)) return refuse_at(at, "'" + printable(text, 80) + "' has control characters");
  return text;
}

Result<std::vector<std::string>> word_list(const Json& json, const std::string& at) {
  std::vector<std::string> all;
  if (json.is_null()) return all;
  if (!json.is_array()) return refuse_at(at, "is no list");
  for (std::size_t i = 0; i < json.size(); ++i) all.push_back(TRY(word(json[i], at + "[" + std::to_string(i) + "]")));
  return all;
}

Result<void> take_field(const std::string& key, const Json& value, const std::string& at, DeviceRequest& out) {
  if (key == "Driver") {
    if (value.is_null() || value == "") return {};
    out.driver = TRY(word(value, at));
  } else if (key == "Count") {
    if (value.is_null()) return {};
    const bool in_range =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxDeviceCount));
    if (!in_range)
      return refuse_at(at, "is no count of devices", "up to " + std::to_string(kMaxDeviceCount) + ", -1 for all");
    out.count = value.get<std::int64_t>();
  } else if (key == "DeviceIDs") {
    out.ids = TRY(word_list(value, at));
  } else if (key == "Capabilities") {
    if (value.is_null()) return {};
    if (!value.is_array()) return refuse_at(at, "is no list");
    for (std::size_t i = 0; i < value.size(); ++i)
      out.capabilities.push_back(TRY(word_list(value[i], at + "[" + std::to_string(i) + "]")));
  } else if (key == "Options") {
    if (value.is_null()) return {};
    if (!value.is_object()) return refuse_at(at, "is no object");
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) return refuse_at(at + "." + printable(name, 80), "is no text");
      out.options[name] = text.get<std::string>();
    }
  } else {
    return refuse_at(at, "is unknown", std::string(kFields));
  }
  return {};
}

}  // namespace

std::vector<DeviceDriver> device_drivers(const DockerNode& node) {
  std::vector<DeviceDriver> all;
  if (has_nvidia(node)) {
    std::vector<std::string> capabilities = {"gpu", "nvidia"};
    capabilities.insert(capabilities.end(), kDriverCapabilities.begin(), kDriverCapabilities.end());
    all.push_back({.name = std::string(kNvidia), .capabilities = std::move(capabilities)});
    if (node.nvidia_cdi_hook) all.push_back({.name = std::string(kNvidiaCdi), .capabilities = {}});
    if (!node.nvidia_runtime_hook.empty()) all.push_back({.name = std::string(kNvidiaHook), .capabilities = {}});
  } else if (node.cdi || node.amd_runtime) {
    all.push_back({.name = std::string(kAmd), .capabilities = {"gpu", "amd"}});
  }
  if (node.cdi) all.push_back({.name = std::string(kCdiDriver), .capabilities = {}});
  return all;
}

Result<EditedConfig> apply_requests(const ContainerConfig& config, std::span<const DeviceRequest> requests,
                                    const DockerNode& node) {
  EditedConfig edited{.config = config, .warnings = {}};
  for (const DeviceRequest& request : requests)
    edited.config = TRY(apply_one(edited.config, request, node, edited.warnings));
  return edited;
}

Result<std::vector<DeviceRequest>> read_device_requests(std::string_view text) {
  const auto json = parse_json(text, kRequestBounds);
  if (!json) return fail(ErrorCode::usage, "DeviceRequests " + json.error().message);
  std::vector<DeviceRequest> all;
  if (json->is_null()) return all;
  if (!json->is_array()) return fail(ErrorCode::usage, "DeviceRequests: is no list");
  for (std::size_t i = 0; i < json->size(); ++i) {
    const std::string at = "DeviceRequests[" + std::to_string(i) + "]";
    if (!(*json)[i].is_object()) return refuse_at(at, "is no object");
    DeviceRequest& request = all.emplace_back();
    for (const auto& [key, value] : (*json)[i].items())
      TRY(take_field(key, value, at + "." + printable(key, 80), request));
  }
  return all;
}

Result<std::vector<std::string>> requested_devices(const DeviceRequest& request) {
  if (request.count != 0 && !request.ids.empty())
    return fail(ErrorCode::usage, "cannot set both Count and DeviceIDs on device request",
                "name devices as --gpus '\"device=0,1\"': without the inner quotes, the comma ends the list");
  if (request.count < 0) return std::vector<std::string>{"all"};
  std::vector<std::string> devices = request.ids;
  for (std::int64_t i = 0; i < request.count; ++i) devices.push_back(std::to_string(i));
  return devices;
}

const std::vector<std::string>* match_capabilities(const DeviceRequest& request,
                                                   const std::vector<std::string>& known) {
  const auto is_known = [&](const std::string& each) { return std::ranges::find(known, each) != known.end(); };
  const auto found =
      std::ranges::find_if(request.capabilities, [&](const auto& list) { return std::ranges::all_of(list, is_known); });
  return found == request.capabilities.end() ? nullptr : &*found;
}

}  // namespace headgate::oci
