#include "oci/share_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "oci/cdi_read.hpp"

namespace headgate::oci {
namespace {

ShareDevice alice() {
  return {.share = "alice",
          .directory = "/run/headgate/shares/alice",
          .limiter = "/usr/lib/headgate/libheadgate.so",
          .preload_list = "/run/headgate/ld.so.preload",
          .driver = {}};
}

const Mount* mount_at(const Document& document, std::string_view place) {
  const auto& mounts = document.devices.at(0).edits.mounts;
  const auto found = std::ranges::find(mounts, place, &Mount::container_path);
  return found == mounts.end() ? nullptr : &*found;
}

bool has(const Mount& mount, const char* option) {
  return std::ranges::find(mount.options, option) != mount.options.end();
}

TEST(ShareDevice, MountsTheShareTheLimiterAndTheLoadersList) {
  const Document document = share_document(alice());
  EXPECT_EQ(document.kind, "headgate.io/share");
  ASSERT_EQ(document.devices.size(), 1u);
  EXPECT_EQ(document.devices[0].name, "alice");
  const Mount* const share = mount_at(document, "/run/headgate/share");
  const Mount* const limiter = mount_at(document, "/run/headgate/libheadgate.so");
  const Mount* const list = mount_at(document, "/etc/ld.so.preload");
  ASSERT_TRUE(share && limiter && list);
  EXPECT_EQ(share->host_path, "/run/headgate/shares/alice");
  EXPECT_EQ(limiter->host_path, "/usr/lib/headgate/libheadgate.so");
  EXPECT_EQ(list->host_path, "/run/headgate/ld.so.preload");
  for (const Mount* each : {share, limiter, list}) {
    EXPECT_TRUE(has(*each, "ro") && has(*each, "bind") && has(*each, "nosuid") && has(*each, "nodev"));
    EXPECT_EQ(has(*each, "noexec"), each != limiter) << each->container_path;
  }
  EXPECT_EQ(preload_list(), limiter->container_path + "\n");
}

TEST(ShareDevice, MakesProgramsClientsOfMps) {
  ShareDevice device = alice();
  device.mps = MpsClient{
      .pipe_directory = "/run/headgate/mps/GPU-1/1000/pipe",
      .env = {"CUDA_MPS_PIPE_DIRECTORY=/run/headgate/mps/GPU-1/1000/pipe", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30"}};
  const Document document = share_document(device);
  for (const char* place : {"/run/headgate/mps/GPU-1/1000/pipe", "/dev/shm"}) {
    const Mount* const mount = mount_at(document, place);
    ASSERT_TRUE(mount) << place;
    EXPECT_EQ(mount->host_path, place);
    EXPECT_TRUE(has(*mount, "rw") && has(*mount, "bind") && has(*mount, "noexec")) << place;
  }
  const auto& env = document.devices.at(0).edits.env;
  for (const std::string& variable : device.mps->env) EXPECT_EQ(std::ranges::count(env, variable), 1) << variable;
  EXPECT_FALSE(mount_at(share_document(alice()), "/dev/shm")) << "only where it is needed";
}

TEST(ShareDevice, DisablesNvidiasRuntime) {
  ShareDevice device = alice();
  device.driver.env = {"NVIDIA_VISIBLE_DEVICES=all", "OTHER=1"};
  EXPECT_EQ(share_document(device).devices[0].edits.env,
            (std::vector<std::string>{"OTHER=1", "NVIDIA_VISIBLE_DEVICES=void"}));
}

TEST(ShareDevice, GivesNvidiasHookItsMemory) {
  ShareDevice device = alice();
  device.memory_mib = 2048;
  EXPECT_EQ(share_document(device).devices[0].edits.env, (std::vector<std::string>{"NVIDIA_VISIBLE_DEVICES=void"}))
      << "no hook reads it";
  device.driver.hooks = {{.name = "createRuntime",
                          .path = "/usr/bin/nvidia-cdi-hook",
                          .args = {"nvidia-cdi-hook", "apply-cuda-memory-limits", "--gpu-id", "GPU-a"},
                          .env = {},
                          .timeout_s = {}}};
  EXPECT_EQ(share_document(device).devices[0].edits.env,
            (std::vector<std::string>{"NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_GPU_MEMORY_REQUEST=2048",
                                      "NVIDIA_GPU_MEMORY_LIMIT=2048"}));
  device.memory_mib.reset();
  EXPECT_EQ(share_document(device).devices[0].edits.env.size(), 1u) << "a share without a limit";
}

TEST(ShareDevice, KeepsItsPlacesFromTheDriversMounts) {
  ShareDevice device = alice();
  device.driver.mounts = {{.host_path = "/x", .container_path = "/etc/ld.so.preload", .type = "", .options = {}},
                          {.host_path = "/x", .container_path = "/run/headgate/share", .type = "", .options = {}},
                          {.host_path = "/x", .container_path = "/y", .type = "", .options = {}}};
  const Document document = share_document(device);
  EXPECT_EQ(document.devices[0].edits.mounts.size(), 4u);
  EXPECT_EQ(share_directory_of(document), "/run/headgate/shares/alice");
  EXPECT_EQ(mount_at(document, "/etc/ld.so.preload")->host_path, "/run/headgate/ld.so.preload");
}

TEST(ShareDevice, HasTheLowestVersionForItsName) {
  ShareDevice device = alice();
  EXPECT_EQ(share_document(device).version, "0.4.0");
  device.share = "7b";
  EXPECT_EQ(share_document(device).version, "0.5.0");
}

TEST(ShareDevice, IsADocumentThatTheReaderTakes) {
  ShareDevice device = alice();
  device.driver = simulated_driver("/usr/lib/headgate/sim", "/run/headgate/sim/default");
  const Document document = share_document(device);
  const auto read = read_json(to_json(document));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, document);
  EXPECT_EQ(share_directory_of(*read), "/run/headgate/shares/alice");
}

TEST(SimulatedDriver, IsWhereLoadersLookAndItsNodeIsWritable) {
  const Edits edits = simulated_driver("/lib/sim", "/node");
  ASSERT_EQ(edits.mounts.size(), 5u);
  std::size_t libraries = 0;
  for (const Mount& mount : edits.mounts) {
    if (mount.host_path == "/node") {
      EXPECT_EQ(mount.container_path, "/run/headgate/simulated-node");
      EXPECT_TRUE(has(mount, "rw"));
      continue;
    }
    EXPECT_EQ(mount.host_path.substr(mount.host_path.rfind('/')),
              mount.container_path.substr(mount.container_path.rfind('/')));
    EXPECT_TRUE(has(mount, "ro") && !has(mount, "noexec"));
    ++libraries;
  }
  EXPECT_EQ(libraries, 4u);
  EXPECT_TRUE(edits.device_nodes.empty());
}

TEST(ShareFiles, AreNamedAfterTheirShares) {
  EXPECT_EQ(share_device_name("a"), "headgate.io/share=a");
  EXPECT_EQ(share_file_name("a.b"), "headgate.io-share_a.b.json");
  EXPECT_EQ(share_of_file_name("headgate.io-share_a.b.json"), "a.b");
  for (const char* other : {"headgate.io-share_.json", "headgate.io-share_a.yaml", "nvidia.com-gpu.json", "a.json", ""})
    EXPECT_FALSE(share_of_file_name(other)) << other;
}

TEST(ShareDirectory, IsEmptyForAnyOtherDocument) {
  Document document = share_document(alice());
  document.kind = "nvidia.com/gpu";
  EXPECT_EQ(share_directory_of(document), "");
  document = share_document(alice());
  document.devices[0].edits.mounts.clear();
  EXPECT_EQ(share_directory_of(document), "");
  document.devices.clear();
  EXPECT_EQ(share_directory_of(document), "");
}

}  // namespace
}  // namespace headgate::oci
