#include "oci/gpu_inventory.hpp"

#include <gtest/gtest.h>

#include "oci/cdi_read.hpp"

namespace headgate::oci {
namespace {

// Has the form of the kernel module's file.
constexpr const char* kInformation =
    "Model: \t\t NVIDIA L40S\nIRQ:   \t\t 77\nGPU UUID: \t GPU-aaaa-1\nVideo BIOS: \t 95.02\nBus Location: \t "
    "0000:01:00.0\nDevice Minor: \t 3\nGPU Excluded:\t No\n";

GpuInventory some_inventory() {
  return {.gpus = {{.uuid = "GPU-aaaa", .minor = 3}, {.uuid = "GPU-bbbb", .minor = 0}},
          .control_nodes = {"/dev/nvidiactl"},
          .files = {{.host_path = "/usr/lib/x/libcuda.so.535.1", .names = {"libcuda.so.1", "libcuda.so.535.1"}},
                    {.host_path = "/usr/bin/nvidia-smi", .names = {}}}};
}

TEST(GpuInventory, ReadsTheKernelsFile) {
  EXPECT_EQ(gpu_of_information(kInformation), (InventoryGpu{.uuid = "GPU-aaaa-1", .minor = 3}));
  EXPECT_EQ(gpu_of_information("GPU UUID: GPU-????\n"), std::nullopt);
  EXPECT_EQ(gpu_of_information("GPU UUID: GPU-a\nDevice Minor: x\n"), std::nullopt);
  EXPECT_EQ(gpu_of_information(""), std::nullopt);
}

TEST(GpuInventory, ListsTheDriversLibrariesThatContainersNeed) {
  EXPECT_TRUE(is_needed_library("libcuda.so.535.1", "535.1"));
  EXPECT_TRUE(is_needed_library("libnvidia-ml.so.535.1", "535.1"));
  EXPECT_FALSE(is_needed_library("libcuda.so.535.1", "550.1"));
  EXPECT_FALSE(is_needed_library("libcuda.so.1", "535.1"));
  EXPECT_FALSE(is_needed_library("libnvidia-glcore.so.535.1", "535.1"));
  EXPECT_FALSE(is_needed_library("libcuda.so.", ""));
}

TEST(GpuInventory, MakesADocumentAsNvidiasToolsWould) {
  const auto document = inventory_document(some_inventory());
  ASSERT_TRUE(document);
  ASSERT_TRUE(check(*document)) << check(*document).error().message;
  EXPECT_EQ(document->version, "0.5.0") << "of names that begin with a digit";
  const auto edits = gpu_driver(*document, std::vector<GpuRef>{{"GPU-bbbb", 1}});
  ASSERT_TRUE(edits);
  std::vector<std::string> nodes, places;
  for (const DeviceNode& node : edits->device_nodes) nodes.push_back(node.path);
  for (const Mount& mount : edits->mounts) places.push_back(mount.host_path + " " + mount.container_path);
  EXPECT_EQ(nodes, (std::vector<std::string>{"/dev/nvidiactl", "/dev/nvidia0"}));
  EXPECT_EQ(std::ranges::count(places, "/usr/lib/x/libcuda.so.535.1 /usr/lib64/libcuda.so.1"), 1);
  EXPECT_EQ(places.back(), "/usr/bin/nvidia-smi /usr/bin/nvidia-smi");
  EXPECT_EQ(places.size(), 5u) << "two names at two places, and a program";
  EXPECT_EQ(document->devices.back().edits.device_nodes.size(), 2u) << "all";
}

TEST(GpuInventory, MakesNoEmptyDocument) {
  GpuInventory without = some_inventory();
  without.gpus.clear();
  EXPECT_FALSE(inventory_document(without));
  without = some_inventory();
  without.files.erase(without.files.begin());
  EXPECT_FALSE(inventory_document(without));
}

}  // namespace
}  // namespace headgate::oci
