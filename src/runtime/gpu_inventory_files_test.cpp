#include "runtime/node_facts.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace headgate::runtime {
namespace {

namespace fs = std::filesystem;

class InventoryFiles : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(root_.data()), nullptr); }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text = "x") const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void link(const std::string& path, const std::string& to) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    fs::create_symlink(to, root_ + path);
  }

  std::string root_ = (fs::temp_directory_path() / "headgate-inventory-XXXXXX").string();
};

TEST_F(InventoryFiles, AreThoseOfTheDriverThatRuns) {
  put("/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun 24 2025\nGCC version:  gcc 12.2.0\n");
  put("/proc/driver/nvidia/gpus/0000:41:00.0/information", "GPU UUID: \t GPU-b\nDevice Minor: \t 0\n");
  put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: \t GPU-a\nDevice Minor: \t 1\n");
  put("/dev/nvidiactl");
  put("/dev/nvidia-uvm");
  put("/usr/lib64/libcuda.so.535.261.03");
  put("/usr/lib64/libcuda.so.550.1");
  link("/usr/lib64/libcuda.so.1", "libcuda.so.535.261.03");
  link("/usr/lib64/libcuda.so", "libcuda.so.1");
  put("/usr/lib64/libnvidia-glcore.so.535.261.03");
  put("/usr/bin/nvidia-smi");
  const oci::GpuInventory wanted = {
      .gpus = {{.uuid = "GPU-a", .minor = 1}, {.uuid = "GPU-b", .minor = 0}},
      .control_nodes = {"/dev/nvidiactl", "/dev/nvidia-uvm"},
      .files = {{.host_path = "/usr/lib64/libcuda.so.535.261.03", .names = {"libcuda.so.1", "libcuda.so.535.261.03"}},
                {.host_path = "/usr/bin/nvidia-smi", .names = {}}}};
  EXPECT_EQ(read_gpu_inventory(root_), wanted);
}

TEST_F(InventoryFiles, AreNoneWithoutADriver) {
  put("/usr/lib64/libcuda.so.1");
  put("/dev/nvidiactl");
  EXPECT_EQ(read_gpu_inventory(root_), oci::GpuInventory{});
}

}  // namespace
}  // namespace headgate::runtime
