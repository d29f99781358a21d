#include <gtest/gtest.h>

#include "oci/cdi_document.hpp"

namespace headgate::oci {
namespace {

std::string least_for(const Edits& edits, const std::string& name = "a") {
  const Document document{.version = {},
                          .kind = "vendor.com/class",
                          .annotations = {},
                          .devices = {{.name = name, .annotations = {}, .edits = edits}},
                          .edits = {}};
  Document general = document;
  std::swap(general.edits, general.devices[0].edits);
  if (name == "a") {
    EXPECT_EQ(minimum_version(document), minimum_version(general));
  }
  return minimum_version(document);
}

TEST(MinimumVersion, IsThatOfTheNewestField) {
  Edits edits;
  edits.env = {"A=b"};
  edits.hooks = {{.name = "prestart", .path = "/h", .args = {}, .env = {}, .timeout_s = {}}};
  edits.mounts = {{.host_path = "/a", .container_path = "/b", .type = "", .options = {"ro"}}};
  DeviceNode node;
  node.path = "/dev/null";
  node.major = 1;
  edits.device_nodes = {node};
  EXPECT_EQ(least_for(edits), "0.3.0");
  edits.mounts[0].type = "bind";
  EXPECT_EQ(least_for(edits), "0.4.0");
  edits.device_nodes[0].host_path = "/dev/zero";
  EXPECT_EQ(least_for(edits), "0.5.0");
  edits.additional_gids = {44};
  EXPECT_EQ(least_for(edits), "0.7.0");
  edits.net_devices = {{"eth0", "eth0"}};
  EXPECT_EQ(least_for(edits), "1.1.0");
}

TEST(MinimumVersion, DependsOnTheFieldsOfIntelRdt) {
  Edits edits;
  edits.intel_rdt.emplace().clos_id = "gold";
  EXPECT_EQ(least_for(edits), "0.7.0");
  edits.intel_rdt->enable_monitoring = true;
  EXPECT_EQ(least_for(edits), "1.1.0");
  edits.intel_rdt->enable_monitoring = false;
  edits.intel_rdt->schemata = {"L3:0=f"};
  EXPECT_EQ(least_for(edits), "1.1.0");
}

TEST(MinimumVersion, Is050ForANameThatBeginsWithADigit) {
  Edits edits;
  edits.env = {"A=b"};
  EXPECT_EQ(least_for(edits, "0"), "0.5.0");
  EXPECT_EQ(least_for(edits, "a0"), "0.3.0");
}

TEST(MinimumVersion, Is060ForAnnotationsAndADotInTheClass) {
  Document document{.version = {}, .kind = "a.b/c", .annotations = {}, .devices = {{}}, .edits = {}};
  EXPECT_EQ(minimum_version(document), "0.3.0");
  document.kind = "a/b.c";
  EXPECT_EQ(minimum_version(document), "0.6.0");
  document.kind = "a/b";
  document.annotations = {{"k", "v"}};
  EXPECT_EQ(minimum_version(document), "0.6.0");
  document.devices[0].annotations.swap(document.annotations);
  EXPECT_EQ(minimum_version(document), "0.6.0");
}

TEST(VersionPlace, CountsFromTheOldest) {
  EXPECT_EQ(version_place("0.3.0"), 0u);
  EXPECT_EQ(version_place("1.1.0"), 7u);
  for (const char* other : {"", "0.2.0", "0.3", "1.2.0", "v0.5.0"}) EXPECT_FALSE(version_place(other)) << other;
}

}  // namespace
}  // namespace headgate::oci
