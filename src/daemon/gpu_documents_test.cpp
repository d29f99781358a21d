#include "daemon/cdi_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "oci/cdi_read.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

class GpuDocumentsTest : public ::testing::Test {
 protected:
  GpuDocumentsTest() {
    for (const char* each : {"/etc", "/run"}) fs::create_directory(scratch_.path() + each);
  }
  // Writes a document with one GPU that has the device node /dev/`node`.
  void put(const std::string& file, const std::string& gpu, const std::string& node,
           const std::string& kind = "nvidia.com/gpu") {
    write(file, R"({"cdiVersion":"0.5.0","kind":")" + kind + R"(","devices":[{"name":")" + gpu +
                    R"(","containerEdits":{"deviceNodes":[{"path":"/dev/)" + node + R"("}]}}]})");
  }
  void write(const std::string& file, const std::string& text) {
    std::ofstream(scratch_.path() + "/next") << text;
    fs::rename(scratch_.path() + "/next", scratch_.path() + file);
  }
  [[nodiscard]] std::string node_of(const std::string& uuid, std::uint32_t index = 9) const {
    const auto edits = documents_.driver_of(std::vector<oci::GpuRef>{{uuid, index}});
    return edits ? edits->device_nodes.at(0).path : edits.error().message;
  }

  const tenancy::Scratch scratch_;
  GpuDocuments documents_{{scratch_.path() + "/etc", scratch_.path() + "/run"}};
};

TEST_F(GpuDocumentsTest, AreReadAgainWhenAFileChanges) {
  EXPECT_FALSE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "no CDI file of the kind nvidia.com/gpu tells how containers get the GPU");
  put("/etc/nvidia.json", "GPU-a", "one");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "/dev/one");
  EXPECT_FALSE(documents_.look());
  put("/etc/nvidia.json", "GPU-a", "two");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "/dev/two");
  fs::remove(scratch_.path() + "/etc/nvidia.json");
  EXPECT_TRUE(documents_.look());
  EXPECT_FALSE(node_of("GPU-a").starts_with("/dev"));
}

TEST_F(GpuDocumentsTest, AreReplacedByTheNodesInventoryIfMissing) {
  const std::string root = scratch_.path() + "/node";
  const auto put_in = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  GpuDocuments documents({scratch_.path() + "/etc"}, root);
  EXPECT_FALSE(documents.look());
  const auto edits = [&] { return documents.driver_of(std::vector<oci::GpuRef>{{"GPU-a", 0}}); };
  EXPECT_FALSE(edits()) << "no driver, no document";
  put_in("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1  Tue\n");
  put_in("/proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: GPU-a\nDevice Minor: 2\n");
  put_in("/usr/lib64/libcuda.so.535.1", "x");
  fs::create_symlink("libcuda.so.535.1", root + "/usr/lib64/libcuda.so.1");
  EXPECT_TRUE(documents.look());
  EXPECT_FALSE(documents.look());
  ASSERT_TRUE(edits()) << edits().error().message;
  EXPECT_EQ(edits()->device_nodes.at(0).path, "/dev/nvidia2");
  put("/etc/nvidia.json", "GPU-a", "nvidias");
  EXPECT_TRUE(documents.look());
  EXPECT_EQ(edits()->device_nodes.at(0).path, "/dev/nvidias") << "NVIDIA's document goes before";
}

TEST_F(GpuDocumentsTest, MayBeYaml) {
  write("/etc/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: GPU-a\n  containerEdits:\n"
        "    deviceNodes: [{path: /dev/one}]\n");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "/dev/one");
}

TEST_F(GpuDocumentsTest, TheLaterDirectoryGoesFirst) {
  put("/etc/nvidia.json", "GPU-a", "static");
  put("/run/nvidia.json", "GPU-a", "dynamic");
  put("/run/other.json", "GPU-a", "another", "vendor.com/gpu");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "/dev/dynamic");
  put("/run/nvidia.json", "GPU-b", "dynamic");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a"), "/dev/static");
}

TEST_F(GpuDocumentsTest, EachMistakeIsReported) {
  put("/etc/nvidia.json", "GPU-b", "b");
  write("/run/nvidia.json", "{");
  EXPECT_TRUE(documents_.look());
  EXPECT_EQ(node_of("GPU-a", 1), scratch_.path() + "/run/nvidia.json: is no JSON; " + scratch_.path() +
                                     "/etc/nvidia.json: it has no device for GPU 1 (GPU-a)");
}

}  // namespace
}  // namespace headgate::daemon
