#include "oci/docker_devices.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "oci/cdi_read.hpp"

namespace headgate::oci {
namespace {

constexpr const char* kGpus = R"({"cdiVersion":"0.5.0","kind":"nvidia.com/gpu",
  "devices":[{"name":"0","containerEdits":{"env":["GPU=0"],"deviceNodes":[{"path":"/dev/nvidia0"}]}},
             {"name":"1","containerEdits":{"env":["GPU=1"],"deviceNodes":[{"path":"/dev/nvidia1"}]}},
             {"name":"broken","containerEdits":{"env":["GPU=b"],"deviceNodes":[{"path":"/dev/absent"}]}},
             {"name":"all","containerEdits":{"env":["GPU=all"]}}],
  "containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"]}})";
constexpr const char* kPlain = R"({"process":{"env":["PATH=/bin"]},"unknown":{"a":[1,2.5]}})";

CdiDevices devices_of(std::vector<const char*> documents) {
  std::vector<CdiFile> files;
  for (const char* text : documents)
    files.push_back({.path = "/etc/cdi/" + std::to_string(files.size()), .priority = 0, .document = read_json(text)});
  return CdiDevices(std::move(files));
}

Result<HostNode> found_node(const std::string& path) {
  if (path == "/dev/absent") return fail(ErrorCode::not_found, "/dev/absent is not there");
  return HostNode{.type = 'c', .major = 195, .minor = path.back() - '0', .mode = 0666};
}

// Returns a node with all of NVIDIA's programs and a document of two GPUs.
DockerNode whole_node() {
  DockerNode node;
  node.devices = devices_of({kGpus});
  node.nvidia_cdi_hook = true;
  node.nvidia_runtime_hook = "/usr/bin/nvidia-container-runtime-hook";
  node.environment = {"PATH=/usr/bin", "HOME=/root"};
  node.find_node = found_node;
  return node;
}
DockerNode without_cdi_hook() {
  DockerNode node = whole_node();
  node.nvidia_cdi_hook = false;
  return node;
}
DockerNode without_nvidia() {
  DockerNode node = without_cdi_hook();
  node.nvidia_runtime_hook.clear();
  return node;
}

Result<EditedConfig> edit(const std::string& requests, const DockerNode& node, const char* config = kPlain) {
  const auto read = read_device_requests(requests);
  EXPECT_TRUE(read) << read.error().message;
  const auto container = ContainerConfig::read(config);
  EXPECT_TRUE(container) << container.error().message;
  return apply_requests(*container, *read, node);
}

std::string edit_trouble(const std::string& requests, const DockerNode& node) {
  const auto edited = edit(requests, node);
  return edited ? "" : edited.error().message;
}

using Words = std::vector<std::string>;
Words env_after(const std::string& requests, const DockerNode& node) {
  const auto edited = edit(requests, node);
  return edited ? edited->config.environment() : Words{edited.error().message};
}

Words names_of(const DockerNode& node) {
  Words names;
  for (const DeviceDriver& driver : device_drivers(node)) names.push_back(driver.name);
  return names;
}

TEST(DockerDrivers, AreThoseWithTheirProgramsOnPath) {
  EXPECT_EQ(names_of(whole_node()), (Words{"nvidia", "nvidia.cdi", "nvidia.runtime-hook", "cdi"}));
  EXPECT_EQ(names_of(without_cdi_hook()), (Words{"nvidia", "nvidia.runtime-hook", "cdi"}));
  EXPECT_EQ(names_of(without_nvidia()), (Words{"amd", "cdi"})) << "AMD's, where CDI is enabled, with no file of its";
  DockerNode node = without_nvidia();
  node.cdi = false;
  EXPECT_EQ(names_of(node), Words{});
  node.amd_runtime = true;
  EXPECT_EQ(names_of(node), Words{"amd"});
  EXPECT_EQ(device_drivers(whole_node())[0].capabilities,
            (Words{"gpu", "nvidia", "compute", "compat32", "graphics", "utility", "video", "display"}));
  for (const std::size_t by_name_only : {1u, 2u, 3u})
    EXPECT_EQ(device_drivers(whole_node())[by_name_only].capabilities, Words{});
}

TEST(DockerDrivers, AreChosenByCapabilitiesOrByName) {
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[["ngx"],["gpu","utility"]]}])", without_cdi_hook()),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility"}));
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[[]]}])", without_cdi_hook()),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0"}))
      << "an empty list matches, with nothing selected";
  EXPECT_EQ(env_after(R"([{"Driver":"nvidia","Count":1,"Capabilities":[["ngx"]]}])", without_cdi_hook()),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0"}))
      << "a named driver is taken whatever it has";
  EXPECT_EQ(env_after(R"([{"Driver":"nvidia","Count":1}])", without_cdi_hook()),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0"}));
}

TEST(DockerDrivers, AreNamedIfMissing) {
  EXPECT_EQ(edit_trouble(R"([{"Count":1,"Capabilities":[["gpu","ngx"],["tpu"]]}])", whole_node()),
            R"(could not select device driver "" with capabilities: [[gpu ngx] [tpu]])");
  EXPECT_EQ(edit_trouble(R"([{"Count":1}])", whole_node()),
            R"(could not select device driver "" with capabilities: [])");
  EXPECT_EQ(edit_trouble(R"([{"Driver":"x","Count":1,"Capabilities":[["gpu"]]}])", whole_node()),
            R"(could not select device driver "x" with capabilities: [[gpu]])");
  EXPECT_EQ(edit_trouble(R"([{"Driver":"nvidia.cdi","Count":1}])", without_cdi_hook()),
            R"(could not select device driver "nvidia.cdi" with capabilities: [])");
  const auto edited = edit(R"([{"Driver":"x"}])", whole_node());
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().hint, "this node has: nvidia, nvidia.cdi, nvidia.runtime-hook, cdi");
  DockerNode none = without_nvidia();
  none.cdi = false;
  EXPECT_TRUE(edit(R"([{"Driver":"x"}])", none).error().hint.contains("restart dockerd"));
}

TEST(DockerDrivers, IncludeAmdOnANodeWithoutNvidiasPrograms) {
  EXPECT_EQ(edit_trouble(R"([{"Count":-1,"Capabilities":[["gpu"]]}])", without_nvidia()), "AMD CDI spec not found");
  DockerNode node = without_nvidia();
  node.devices = {};
  EXPECT_EQ(edit_trouble(R"([{"Count":-1,"Capabilities":[["gpu"]]}])", node),
            "failed to discover GPU vendor from CDI: no known GPU vendor found");
  node.devices = devices_of(
      {R"({"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"env":["AMD=0"]}}]})"});
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[["gpu"]]}])", node), (Words{"PATH=/bin", "AMD=0"}));
  node.cdi = false, node.amd_runtime = true;
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[["gpu"]]}])", node),
            (Words{"PATH=/bin", "AMD_VISIBLE_DEVICES=0"}));
  EXPECT_EQ(env_after(R"([{"Capabilities":[["gpu"]]}])", node), (Words{"PATH=/bin", "AMD_VISIBLE_DEVICES=void"}));
}

TEST(CdiRoad, TakesNamesByCountAndByIds) {
  const auto cdi = [](const std::string& fields) {
    return env_after(R"([{"Driver":"nvidia.cdi",)" + fields + "}]", whole_node());
  };
  EXPECT_EQ(cdi(R"("Count":2)"), (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=1"})) << "the last one wins";
  EXPECT_EQ(cdi(R"("Count":-3)"), (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=all"}));
  EXPECT_EQ(cdi(R"("DeviceIDs":["1"])"), (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=1"}));
  EXPECT_EQ(cdi(R"("DeviceIDs":["nvidia.com/gpu=0"],"Options":{"a":"b"})"),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=0"}))
      << "options are dropped";
  EXPECT_EQ(cdi(R"("Count":0)"), Words{"PATH=/bin"}) << "nothing asked for, nothing added";
  EXPECT_EQ(cdi(R"("Count":3)"), Words{"CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=2"});
  EXPECT_EQ(cdi(R"("DeviceIDs":["=","GPU-1"])"),
            Words{"CDI device injection failed: unresolvable CDI devices =, nvidia.com/gpu=GPU-1"});
  EXPECT_EQ(cdi(R"("Count":1,"DeviceIDs":["0"])"), Words{"cannot set both Count and DeviceIDs on device request"});
  DockerNode node = whole_node();
  node.cdi = false;
  EXPECT_EQ(edit_trouble(R"([{"Driver":"nvidia.cdi","Count":1}])", node),
            "no CDI device driver registered: could not select device driver \"nvidia.cdi\" with capabilities: []");
}

TEST(CdiRoad, TakesWholeNamesForThePlainDriver) {
  const auto cdi = [](const std::string& fields) {
    return env_after(R"([{"Driver":"cdi",)" + fields + "}]", without_nvidia());
  };
  EXPECT_EQ(cdi(R"("DeviceIDs":["nvidia.com/gpu=1"])"), (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=1"}));
  EXPECT_EQ(cdi(R"("Count":1)"), Words{"unexpected count in CDI device request"});
  EXPECT_EQ(cdi(R"("DeviceIDs":["a"],"Options":{"a":"b"})"), Words{"unexpected options in CDI device request"});
  EXPECT_EQ(cdi(R"("DeviceIDs":["1"])"), Words{"CDI device injection failed: unresolvable CDI devices 1"});
  EXPECT_EQ(cdi(R"("DeviceIDs":[])"), Words{"PATH=/bin"});
}

TEST(CdiRoad, NamesTheFileAtFault) {
  DockerNode node = without_nvidia();
  node.devices = devices_of({kGpus, kGpus});
  const auto edited = edit(R"([{"Driver":"cdi","DeviceIDs":["nvidia.com/gpu=1"]}])", node);
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().hint, "/etc/cdi/0 is in conflict with /etc/cdi/1");
  node.devices = devices_of({"{}"});
  EXPECT_EQ(edit(R"([{"Driver":"cdi","DeviceIDs":["nvidia.com/gpu=1"]}])", node).error().hint,
            "/etc/cdi/0: has no 'cdiVersion'");
}

TEST(HookRoad, AddsVariablesAndThePrestartHook) {
  const char* const before =
      R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]},"hooks":{"prestart":[{"path":"/other"}],"x":1}})";
  const auto edited =
      edit(R"([{"Driver":"nvidia.runtime-hook","DeviceIDs":["0","GPU-1"],"Capabilities":[["gpu","compute"]]},
               {"Count":2,"Capabilities":[["gpu","video","compute"]]}])",
           without_cdi_hook(), before);
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_EQ(edited->config.environment(),
            (Words{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=0,GPU-1", "NVIDIA_VISIBLE_DEVICES=0,1",
                   "NVIDIA_DRIVER_CAPABILITIES=video,compute"}))
      << "appended, one request after another; a driver by name has selected nothing";
  const Json hook = Json::parse(R"({"path":"/usr/bin/nvidia-container-runtime-hook",
    "args":["nvidia-container-runtime-hook","prestart"],"env":["PATH=/usr/bin","HOME=/root"]})");
  EXPECT_EQ(edited->config.json()["hooks"], (Json{{"prestart", {{{"path", "/other"}}, hook, hook}}, {"x", 1}}));
}

TEST(HookRoad, AddsNothingWithoutARequest) {
  EXPECT_EQ(env_after(R"([{"Driver":"nvidia.runtime-hook"}])", whole_node()), Words{"PATH=/bin"});
  EXPECT_EQ(env_after(R"([{"Count":1,"DeviceIDs":["0"],"Driver":"nvidia.runtime-hook"}])", whole_node()),
            Words{"cannot set both Count and DeviceIDs on device request"});
}

TEST(TwoRoads, AreTriedInOrderAndAFailureLeavesNothing) {
  const std::string broken = R"([{"DeviceIDs":["broken"],"Capabilities":[["gpu"]]}])";
  const auto edited = edit(broken, whole_node());
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_EQ(edited->config.environment(), (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=broken"}))
      << "neither GPU=b nor void: the road of CDI had set them before its device was missing";
  EXPECT_EQ(edited->warnings, Words{"ignored: CDI device injection failed: /dev/absent is not there"});
  DockerNode node = whole_node();
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[["gpu"]]}])", node),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "GPU=0"}));
  node.first = FirstRoad::hook;
  EXPECT_EQ(env_after(R"([{"Count":1,"Capabilities":[["gpu"]]}])", node),
            (Words{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0"}));
  EXPECT_EQ(edit(broken, node)->warnings, Words{});
}

TEST(TwoRoads, ReportTogetherThatBothFailed) {
  DockerNode node = whole_node();
  node.nvidia_runtime_hook.clear();
  EXPECT_EQ(
      edit_trouble(R"([{"Count":5,"Capabilities":[["gpu"]]}])", node),
      "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=2, nvidia.com/gpu=3, nvidia.com/gpu=4");
  EXPECT_EQ(edit_trouble(R"([{"Count":1,"DeviceIDs":["0"],"Capabilities":[["gpu"]]}])", whole_node()),
            "cannot set both Count and DeviceIDs on device request")
      << "the same of both";
  DockerNode amd = without_nvidia();
  amd.amd_runtime = true;
  EXPECT_EQ(edit_trouble(R"([{"Count":1,"DeviceIDs":["0"],"Capabilities":[["gpu"]]}])", amd),
            "AMD CDI spec not found; cannot set both Count and DeviceIDs on device request");
}

TEST(TwoRoads, CheckTheImagesCuda) {
  const char* const image = R"({"process":{"env":["NVIDIA_REQUIRE_CUDA=cuda>=12.4"]}})";
  DockerNode node = whole_node();
  node.gpus = {.driver = "535.261", .cuda = "12.2", .brand = "", .arch = ""};
  const auto edited = edit(R"([{"Count":1,"Capabilities":[["gpu"]]}])", node, image);
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().message, "the image needs CUDA 12.4, driver 535.261 has 12.2");
  EXPECT_TRUE(edit(R"([{"Count":0,"Capabilities":[["gpu"]]}])", node, image)) << "it is given no GPU";
}

TEST(ApplyRequests, KeepUnknownFields) {
  const auto edited = edit(R"([{"Count":1,"Capabilities":[["gpu"]]}])", whole_node());
  ASSERT_TRUE(edited);
  EXPECT_EQ(edited->config.json()["unknown"], (Json{{"a", {1, 2.5}}}));
  const auto none = edit("[]", whole_node());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->config.json(), Json::parse(kPlain));
}

}  // namespace
}  // namespace headgate::oci
