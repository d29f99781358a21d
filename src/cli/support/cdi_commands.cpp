// `headgate cdi`: how engines read this machine's CDI files; engines only report "unresolvable".
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "oci/cdi_cache.hpp"
#include "oci/gpu_inventory.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Result<void> add_directory(const std::string& path, std::size_t priority, std::vector<oci::CdiFile>& files) {
  for (auto& file : TRY(runtime::read_cdi_directory(path, priority))) files.push_back(std::move(file));
  return {};
}

Result<std::vector<oci::CdiFile>> files_of(const std::vector<std::string>& paths) {
  std::vector<oci::CdiFile> files;
  std::error_code ignored;
  std::size_t priority = 0;
  if (paths.empty()) {
    for (const char* usual : {runtime::kStaticCdiDirectory, runtime::kDynamicCdiDirectory}) {
      if (fs::exists(usual, ignored)) TRY(add_directory(usual, priority, files));
      ++priority;
    }
    return files;
  }
  for (const std::string& path : paths) {
    if (!fs::exists(path, ignored)) return fail(ErrorCode::not_found, "there is no '" + harmless(path) + "'");
    if (!fs::is_directory(path, ignored))
      files.push_back({.path = path, .priority = priority, .document = runtime::read_cdi_file(path)});
    else TRY(add_directory(path, priority++, files));
  }
  return files;
}

std::string text_of(const Error& error) { return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"); }

std::string state_of(const oci::CdiDevice& device) { return device.problem.empty() ? "ok" : device.problem; }

std::string list_text(const std::vector<oci::CdiFile>& files, const std::vector<oci::CdiDevice>& devices,
                      const Voice& voice) {
  std::vector<std::vector<std::string>> rows = {{"DEVICE", "VERSION", "FILE", "STATE"}};
  for (const auto& device : devices) rows.push_back({device.name, device.version, device.path, state_of(device)});
  for (const auto& file : files)
    if (!file.document) rows.push_back({"-", "-", file.path, text_of(file.document.error())});
  return rows.size() == 1 ? "there are no CDI files\n" : table(rows, voice);
}

std::string file_text(const oci::CdiFile& file) {
  if (!file.document) return text_of(file.document.error());
  const oci::Document& document = *file.document;
  const std::size_t count = document.devices.size();
  const std::string least = oci::minimum_version(document);
  return "ok, " + std::to_string(count) + (count == 1 ? " device" : " devices") + ", CDI " + document.version +
         (least == document.version ? "" : " (" + least + " has all that it needs)");
}

std::string validate_text(const std::vector<oci::CdiFile>& files, const std::vector<oci::CdiDevice>& devices) {
  std::string text;
  for (const auto& file : files) text += harmless(file.path) + ": " + harmless(file_text(file)) + "\n";
  for (const auto& device : devices)
    if (!device.problem.empty())
      text += harmless(device.path) + ": " + device.name + " is " + harmless(device.problem) + "\n";
  return text.empty() ? "there are no CDI files\n" : text;
}

std::string cdi_json(const std::vector<oci::CdiFile>& files, const std::vector<oci::CdiDevice>& devices) {
  Json json = {{"schema", "headgate.cdi/v1"}, {"files", Json::array()}, {"devices", Json::array()}};
  for (const auto& file : files) {
    Json one = {{"path", file.path}, {"problem", file.document ? "" : text_of(file.document.error())}};
    if (file.document) one["version"] = file.document->version;
    if (file.document) one["minimum_version"] = oci::minimum_version(*file.document);
    json["files"].push_back(std::move(one));
  }
  for (const auto& device : devices)
    json["devices"].push_back({{"name", device.name}, {"path", device.path}, {"problem", device.problem}});
  return pretty_json(json);
}

Result<int> cdi_generate(const Call&) {
  const auto document = oci::inventory_document(runtime::read_gpu_inventory(""));
  if (document) return show(oci::to_json(*document));
  return fail(ErrorCode::not_found, "this node has no NVIDIA driver with a GPU and a libcuda.so.1",
              "load the driver first: cat /proc/driver/nvidia/version");
}

// Files and directories; a later directory overrides an earlier one. Empty: the engines' default directories.
using Paths = std::vector<std::string>;

// Returns 1 from validate if an engine would reject any device.
Result<int> cdi_command(const Call& call, const Paths& paths) {
  const auto files = TRY(files_of(paths));
  const auto devices = oci::resolve(files);
  const bool lists = call.command == "cdi list";
  TRY(show(call.voice.format == Format::json ? cdi_json(files, devices)
           : lists                           ? list_text(files, devices, call.voice)
                                             : validate_text(files, devices)));
  const bool all_taken = std::ranges::all_of(files, [](const auto& file) { return file.document.has_value(); }) &&
                         std::ranges::all_of(devices, [](const auto& device) { return device.problem.empty(); });
  return lists || all_taken ? 0 : exit_status(ErrorCode::failed);
}

void add_cdi_options(Options& options, Paths& paths) {
  options.list("PATH", "", "files or directories (default: /etc/cdi and /var/run/cdi)", Takes::some, paths).completes =
      ":file";
}

}  // namespace

Commands cdi_commands() {
  return {parent_command(kContainers, "cdi", "list, check and generate CDI files"),
          command<Paths>(kCommands, "cdi list", "list the devices that engines can use, and why they ignore others",
                         add_cdi_options, cdi_command, Reads::nothing),
          command<Paths>(kCommands, "cdi validate",
                         "report what engines would refuse in CDI files, and the lowest version that they need",
                         add_cdi_options, cdi_command, Reads::nothing),
          plain_command(kCommands, "cdi generate", "print a CDI file of this node's GPUs, without NVIDIA's tools",
                        cdi_generate, Reads::nothing)};
}

}  // namespace headgate::cli
