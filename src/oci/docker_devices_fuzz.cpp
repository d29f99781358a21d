// The input is a request and a configuration, separated by a line break. Any bytes give an error, or a configuration
// that parses again and keeps every field that we do not edit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "oci/cdi_read.hpp"
#include "oci/docker_devices.hpp"

namespace {

using namespace headgate::oci;

constexpr const char* kDocument = R"({"cdiVersion":"1.1.0","kind":"nvidia.com/gpu",
  "devices":[{"name":"0","containerEdits":{"env":["GPU=0"],"deviceNodes":[{"path":"/dev/nvidia0"}]}},
             {"name":"all","containerEdits":{"mounts":[{"hostPath":"/a","containerPath":"/b/c"}],"additionalGids":[4]}}],
  "containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"],"hooks":[{"hookName":"createContainer","path":"/h"}],
                    "netDevices":[{"hostInterfaceName":"a","name":"b"}],"intelRdt":{"closID":"c"}}})";

DockerNode fuzzed_node() {
  DockerNode node;
  node.devices = CdiDevices({{.path = "/f", .priority = 0, .document = read_json(kDocument)}});
  node.nvidia_cdi_hook = true;
  node.nvidia_runtime_hook = "/hook";
  node.gpus = {.driver = "535.1", .cuda = "12.2", .brand = "tesla", .arch = "9.0"};
  node.find_node = [](const std::string&) { return HostNode{.type = 'c', .major = 1, .minor = 2, .mode = 3}; };
  return node;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const DockerNode node = fuzzed_node();
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto line = std::min(all.find('\n'), all.size());
  const auto requests = read_device_requests(all.substr(0, line));
  const auto config = ContainerConfig::read(all.substr(std::min(line + 1, all.size())));
  if ((!requests && requests.error().message.empty()) || (!config && config.error().message.empty())) std::abort();
  if (!requests || !config) return 0;
  const auto edited = apply_requests(*config, *requests, node);
  if (!edited) {
    if (edited.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = ContainerConfig::read(edited->config.text());
  if (!again || again->json() != edited->config.json()) std::abort();
  for (const auto& [key, value] : config->json().items())
    if (key != "process" && key != "hooks" && key != "mounts" && key != "linux" &&
        edited->config.json().value(key, Json()) != value)
      std::abort();
  return 0;
}
