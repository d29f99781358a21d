#include "oci/share_container.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/utf8.hpp"
#include "oci/cdi_document.hpp"
#include "oci/share_device.hpp"

namespace headgate::oci {
namespace {

constexpr const char* kVisible = "NVIDIA_VISIBLE_DEVICES";
constexpr std::string_view kPreloadFile = "/etc/ld.so.preload";

std::string_view file_name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_nvidias_hook(const std::string& path) {
  const std::string_view file = file_name_of(path);
  return file == "nvidia-container-runtime-hook" || file == "nvidia-container-toolkit";
}

// Matches /dev/nvidia0 and /dev/nvidia-caps/..., not the nodes common to all GPUs.
bool is_gpu_node(std::string_view path) {
  constexpr std::string_view kNode = "/dev/nvidia";
  if (!path.starts_with(kNode)) return false;
  path.remove_prefix(kNode.size());
  return path.starts_with("-caps/") ||
         (!path.empty() && std::ranges::all_of(path, [](char c) { return c >= '0' && c <= '9'; }));
}

std::vector<std::string> gpu_nodes(const ContainerConfig& config) {
  std::vector<std::string> all;
  if (const Json* devices = config.at({"linux", "devices"}))
    for (const Json& each : *devices)
      if (const auto path = each["path"].get<std::string>(); is_gpu_node(path)) all.push_back(path);
  return all;
}

// Returns true if the last device rule permits every device.
bool is_privileged(const ContainerConfig& config) {
  const Json* const rules = config.at({"linux", "resources", "devices"});
  bool all = false;
  for (const Json& rule : rules == nullptr ? Json::array() : *rules) {
    const std::string type = rule.contains("type") && rule["type"].is_string() ? rule["type"].get<std::string>() : "";
    const auto any = [&](const char* key) { return !rule.contains(key) || !rule[key].is_number() || rule[key] < 0; };
    if ((!type.empty() && type != "a") || !any("major") || !any("minor")) continue;
    all = rule.value("allow", Json(false)) == true;
  }
  return all;
}

std::unexpected<Error> two_shares(const std::string& one, const std::string& other) {
  return fail(ErrorCode::usage,
              "the container asks for the shares '" + printable(one, 80) + "' and '" + printable(other, 80) + "'",
              "a container is in one share at most: name one");
}

// Returns the share named in the device request; empty if none.
Result<std::string> requested_share(const std::string& devices) {
  std::string prefix(kShareKind);
  prefix += '=';
  std::string share;
  bool others = false;
  for (const auto part : std::views::split(devices, ',')) {
    const std::string each(part.begin(), part.end());
    if (!each.starts_with(prefix)) others = true;
    else if (share.empty()) share = each.substr(prefix.size());
    else if (each != prefix + share) return two_shares(share, each.substr(prefix.size()));
  }
  if (!share.empty() && others)
    return fail(ErrorCode::usage, "the container asks for the share '" + printable(share, 80) + "' and for other GPUs",
                "a share has its GPUs already: name it alone");
  return share;
}

}  // namespace

bool has_gpu(const ContainerConfig& config, bool next_is_nvidias) {
  if (!gpu_nodes(config).empty()) return true;
  const std::string visible = config.variable(kVisible).value_or("");
  const bool asks = !visible.empty() && visible != "void" && visible != "none";
  return asks && (next_is_nvidias || config.has_hook(is_nvidias_hook));
}

Result<ShareChoice> choose_share(const ContainerConfig& config, const ShareRules& rules) {
  ShareChoice choice;
  std::optional<Error> wrong;
  const auto take = [&](const std::string& share, AskedBy by) {
    if (share.empty() || wrong) return;
    if (!is_device_name(share))
      wrong = Error{ErrorCode::usage, "'" + printable(share, 80) + "' is no name of a share",
                    "headgate share ls names them"};
    else if (choice.share.empty()) choice = {.share = share, .by = by};
    else if (choice.share != share) wrong = two_shares(choice.share, share).error();
  };
  // The share's directory has the share's name.
  if (const auto mounted = config.source_of(kMountedShare)) take(std::string(file_name_of(*mounted)), AskedBy::engine);
  take(config.annotation(kShareAnnotation).value_or(""), AskedBy::annotation);
  if (config.has_hook(is_nvidias_hook))
    take(TRY(requested_share(config.variable(kVisible).value_or(""))), AskedBy::device_request);
  if (rules.from_environment) take(config.variable("HEADGATE_SHARE").value_or(""), AskedBy::environment);
  if (wrong) return std::unexpected(std::move(*wrong));
  if (choice.share.empty() && rules.gpu_without_share != "pass" && has_gpu(config, rules.next_is_nvidias)) {
    if (rules.gpu_without_share == "refuse")
      return fail(ErrorCode::denied, "the container has a GPU and is in no share, which this node refuses",
                  "name a share: --annotation headgate.io/share=NAME, or --device headgate.io/share=NAME");
    choice = {.share = rules.gpu_without_share, .by = AskedBy::rule};
  }
  if (!choice.share.empty() && is_privileged(config))
    return fail(ErrorCode::denied, "the container is privileged, so the share '" + choice.share + "' cannot hold it",
                "start it without --privileged");
  return choice;
}

Result<ContainerConfig> in_share(ContainerConfig config, const Document& document, AskedBy by,
                                 const FindHostNode& find) {
  if (share_directory_of(document).empty()) return fail(ErrorCode::usage, "the CDI file is none of a share");
  const Edits& own = document.devices.front().edits;
  for (const std::string& path : gpu_nodes(config)) {
    if (std::ranges::find(own.device_nodes, path, &DeviceNode::path) == own.device_nodes.end())
      return fail(ErrorCode::denied, "the container has " + path + ", which is not of its share",
                  "ask for the share alone: it brings its GPUs");
  }
  config.remove_hooks(is_nvidias_hook);
  if (by == AskedBy::engine) return config;
  // The image may have set these; the document decides.
  for (const char* name : {kVisible, "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"})
    config.remove_variable(name);
  for (const Edits* each : {&document.edits, &own}) TRY(config.apply(*each, find));
  return config;
}

void replace_preload_list(ContainerConfig& config, const std::string& path) { config.set_source(kPreloadFile, path); }

}  // namespace headgate::oci
