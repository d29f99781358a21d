#include "oci/gpu_inventory.hpp"

#include <gtest/gtest.h>

#include "oci/cdi_read.hpp"
#include "oci/share_device.hpp"

namespace headgate::oci {
namespace {

// Has the form that `nvidia-ctk cdi generate` of container toolkit 1.20 writes for two GPUs.
constexpr const char* kOfTwoGpus = R"({
  "cdiVersion": "0.7.0", "kind": "nvidia.com/gpu",
  "devices": [
    {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "major": 195, "minor": 0, "type": "c"}],
                                     "additionalGids": [44]}},
    {"name": "GPU-bbbb", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/driver/dev/nvidia1"}],
                                            "additionalGids": [44]}},
    {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]}}],
  "containerEdits": {
    "env": ["NVIDIA_CTK_LIBCUDA_DIR=/lib/x86_64-linux-gnu", "NVIDIA_VISIBLE_DEVICES=void"],
    "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm", "major": 510}],
    "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "env": ["NVIDIA_CTK_DEBUG=false"],
               "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/lib/x86_64-linux-gnu"]}],
    "mounts": [{"hostPath": "/lib/x86_64-linux-gnu/libcuda.so.999.88", "containerPath": "/lib/x86_64-linux-gnu/libcuda.so.999.88",
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}]}})";

Document of_two_gpus() {
  const auto document = read_json(kOfTwoGpus);
  EXPECT_TRUE(document) << document.error().message;
  return document.value_or(Document{});
}

std::vector<std::string> nodes_of(const Edits& edits) {
  std::vector<std::string> paths;
  for (const DeviceNode& node : edits.device_nodes) {
    paths.push_back(node.path);
    EXPECT_FALSE(node.major || node.minor) << node.path;
    EXPECT_EQ(node.type, "");
  }
  return paths;
}

TEST(GpuDriver, HasOnlyTheSharesGpusAndNoNumbers) {
  const Document document = of_two_gpus();
  const auto first = gpu_driver(document, std::vector<GpuRef>{{"GPU-aaaa", 0}});
  ASSERT_TRUE(first);
  EXPECT_EQ(nodes_of(*first), (std::vector<std::string>{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"}));
  const auto second = gpu_driver(document, std::vector<GpuRef>{{"GPU-bbbb", 0}});
  ASSERT_TRUE(second);
  EXPECT_EQ(nodes_of(*second), (std::vector<std::string>{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"}))
      << "its UUID goes before its index";
  EXPECT_EQ(second->device_nodes[2].host_path, "/driver/dev/nvidia1");
  const auto both = gpu_driver(document, std::vector<GpuRef>{{"GPU-aaaa", 0}, {"GPU-bbbb", 1}});
  ASSERT_TRUE(both);
  EXPECT_EQ(nodes_of(*both).size(), 4u);
  EXPECT_EQ(both->additional_gids, (std::vector<std::uint32_t>{44}));
}

TEST(GpuDriver, CarriesHooksAndMounts) {
  const Document document = of_two_gpus();
  const auto edits = gpu_driver(document, std::vector<GpuRef>{{"GPU-aaaa", 0}});
  ASSERT_TRUE(edits);
  EXPECT_EQ(edits->hooks, document.edits.hooks);
  EXPECT_EQ(edits->mounts, document.edits.mounts);
  const Document share =
      share_document({.share = "a", .directory = "/d", .limiter = "/l", .preload_list = "/p", .driver = *edits});
  EXPECT_EQ(share.version, "0.7.0") << "of the additional groups";
  EXPECT_EQ(share.devices[0].edits.hooks, document.edits.hooks);
  EXPECT_EQ(share.devices[0].edits.env,
            (std::vector<std::string>{"NVIDIA_CTK_LIBCUDA_DIR=/lib/x86_64-linux-gnu", "NVIDIA_VISIBLE_DEVICES=void"}));
}

TEST(GpuDriver, NamesAGpuThatTheDocumentLacks) {
  const auto edits = gpu_driver(of_two_gpus(), std::vector<GpuRef>{{"GPU-cccc", 2}});
  ASSERT_FALSE(edits);
  EXPECT_EQ(edits.error().message, "it has no device for GPU 2 (GPU-cccc)");
}

}  // namespace
}  // namespace headgate::oci
