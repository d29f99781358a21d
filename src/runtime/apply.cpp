#include "runtime/apply.hpp"

#include <filesystem>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::runtime {
namespace {

struct ApplyOptions {
  std::string request;
  std::vector<std::string> directories;
  bool no_cdi = false, hook_first = false;
  std::string driver;
};

std::unexpected<Error> misused(const std::string& what) {
  return fail(ErrorCode::usage, what, std::string("usage: ") + kApplyUsage);
}

Result<ApplyOptions> read_options(std::span<const std::string> words) {
  ApplyOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--no-cdi" || name == "--hook-first") {
      if (value) return misused(name + " takes no value");
      (name == "--no-cdi" ? options.no_cdi : options.hook_first) = true;
      continue;
    }
    if (name != "--request" && name != "--cdi-dir" && name != "--driver-version")
      return misused("'" + printable(words[i], 80) + "' is no option of headgate-oci apply");
    if (!value && i + 1 < words.size()) value = words[++i];
    if (!value || value->empty()) return misused(name + " needs a value");
    if (name == "--request") options.request = *value;
    else if (name == "--cdi-dir") options.directories.push_back(*value);
    else options.driver = *value;
  }
  if (options.request.empty()) return misused("--request names no file");
  if (options.no_cdi && !options.directories.empty()) return misused("--no-cdi and --cdi-dir exclude each other");
  return options;
}

// The default directories may be missing; a named one must exist.
Result<oci::CdiDevices> devices_of(std::vector<std::string> directories) {
  const bool named = !directories.empty();
  if (!named) directories = {kStaticCdiDirectory, kDynamicCdiDirectory};
  std::vector<oci::CdiFile> files;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    std::error_code ignored;
    if (!named && !std::filesystem::exists(directories[i], ignored)) continue;
    for (auto& file : TRY(read_cdi_directory(directories[i], i))) files.push_back(std::move(file));
  }
  return oci::CdiDevices(std::move(files));
}

}  // namespace

Result<ApplyOutput> apply(std::span<const std::string> words, std::string_view text) {
  constexpr std::size_t kMaxRequestBytes = 1 << 20;
  const ApplyOptions options = TRY(read_options(words));
  const WholeFile file = TRY(read_whole_file(options.request, kMaxRequestBytes));
  const auto requests = TRY(oci::read_device_requests(file.text));
  const auto config = TRY(oci::ContainerConfig::read(text));
  oci::DockerNode node = this_node();
  node.cdi = !options.no_cdi;
  if (node.cdi) node.devices = TRY(devices_of(options.directories));
  if (options.hook_first) node.first = oci::FirstRoad::hook;
  if (!options.driver.empty()) node.gpus = {.driver = options.driver, .cuda = oci::cuda_of_driver(options.driver)};
  auto edited = TRY(oci::apply_requests(config, requests, node));
  return ApplyOutput{.config = edited.config.text(), .warnings = std::move(edited.warnings)};
}

}  // namespace headgate::runtime
