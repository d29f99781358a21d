#include "oci/cdi_cache.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

CdiFile file_of(const std::string& path, std::size_t priority, const std::vector<std::string>& devices) {
  Document document;
  document.version = "0.5.0";
  document.kind = "v/c";
  for (const auto& name : devices) document.devices.push_back({.name = name, .annotations = {}, .edits = {}});
  return {.path = path, .priority = priority, .document = document};
}

// Returns "NAME FILE: PROBLEM" for each device.
std::vector<std::string> told(const std::vector<CdiFile>& files) {
  std::vector<std::string> all;
  for (const CdiDevice& device : resolve(files))
    all.push_back(device.name + " " + device.path + (device.problem.empty() ? "" : ": " + device.problem));
  return all;
}
using Told = std::vector<std::string>;

TEST(CdiCache, HasEachDeviceOfEachDocument) {
  EXPECT_EQ(told({file_of("/a", 0, {"1", "0"}), file_of("/b", 0, {"2"})}), (Told{"v/c=0 /a", "v/c=1 /a", "v/c=2 /b"}));
  EXPECT_EQ(told({{.path = "/a", .priority = 0, .document = fail(ErrorCode::usage, "is no JSON")}}), Told{});
}

TEST(CdiCache, TheHigherPriorityShadowsTheLower) {
  EXPECT_EQ(told({file_of("/etc/a", 0, {"0"}), file_of("/run/b", 1, {"0"})}),
            (Told{"v/c=0 /etc/a: shadowed by /run/b", "v/c=0 /run/b"}));
}

TEST(CdiCache, AConflictRemovesTheNameAtEveryPriority) {
  EXPECT_EQ(told({file_of("/etc/a", 0, {"0", "1"}), file_of("/etc/b", 0, {"0"}), file_of("/run/c", 1, {"0"})}),
            (Told{"v/c=0 /etc/a: in conflict with /etc/b", "v/c=0 /etc/b: in conflict with /etc/a",
                  "v/c=0 /run/c: in conflict: /etc/b is in conflict with /etc/a", "v/c=1 /etc/a"}));
}

}  // namespace
}  // namespace headgate::oci
