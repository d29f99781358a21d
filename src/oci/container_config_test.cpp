#include "oci/container_config.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headgate::oci {
namespace {

ContainerConfig config_of(std::string_view text) {
  auto config = ContainerConfig::read(text);
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

Result<HostNode> host_node(const std::string& path) {
  if (path == "/dev/none") return fail(ErrorCode::not_found, "/dev/none is not there");
  return HostNode{.type = path == "/dev/disk" ? 'b' : 'c', .major = 195, .minor = 7, .mode = 0640};
}

Json edited(std::string_view text, const Edits& edits) {
  ContainerConfig config = config_of(text);
  const auto applied = config.apply(edits, host_node);
  EXPECT_TRUE(applied) << applied.error().message;
  return config.json();
}

Edits with_nodes(std::vector<DeviceNode> nodes) {
  Edits edits;
  edits.device_nodes = std::move(nodes);
  return edits;
}

TEST(ConfigEdits, ReplaceAVariableAtItsPlace) {
  Edits edits;
  edits.env = {"A=1", "NEW=2", "A=3"};
  EXPECT_EQ(edited(R"({"process":{"env":["A=0","B=0","A=9","AB=0"],"cwd":"/"}})", edits),
            Json::parse(R"({"process":{"env":["A=3","B=0","AB=0","NEW=2"],"cwd":"/"}})"));
  EXPECT_EQ(edited("{}", edits), Json::parse(R"({"process":{"env":["A=3","NEW=2"]}})"));
}

TEST(ConfigEdits, CopyNumbersAndModeOfANodeFromTheHost) {
  EXPECT_EQ(edited(R"({"linux":{"devices":[{"path":"/dev/gpu","type":"c"},{"path":"/dev/x"}]}})",
                   with_nodes({{.path = "/dev/gpu", .host_path = "/host/gpu", .permissions = "rw"}})),
            Json::parse(R"({"linux":{"devices":[{"path":"/dev/x"},
              {"path":"/dev/gpu","type":"c","major":195,"minor":7,"fileMode":416}],
              "resources":{"devices":[{"allow":true,"type":"c","major":195,"minor":7,"access":"rw"}]}}})"))
      << "it replaces the node at that path";
  EXPECT_EQ(edited("{}", with_nodes({{.path = "/dev/disk", .file_mode = 0600}}))["linux"],
            Json::parse(R"({"devices":[{"path":"/dev/disk","type":"b","major":195,"minor":7,"fileMode":384}],
              "resources":{"devices":[{"allow":true,"type":"b","major":195,"minor":7,"access":"rwm"}]}})"));
}

TEST(ConfigEdits, NeedNoHostForANodeWithNumbers) {
  EXPECT_EQ(
      edited("{}",
             with_nodes({{.path = "/dev/none", .type = "c", .major = 1, .minor = 2, .permissions = "none"}}))["linux"],
      Json::parse(R"({"devices":[{"path":"/dev/none","type":"c","major":1,"minor":2}],
              "resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":2,"access":""}]}})"));
  EXPECT_EQ(edited("{}", with_nodes({{.path = "/dev/none", .type = "p"}}))["linux"],
            Json::parse(R"({"devices":[{"path":"/dev/none","type":"p"}]})"))
      << "a fifo has no numbers and no rule";
}

TEST(ConfigEdits, GiveANodeToTheContainersUser) {
  const Json user = Json::parse(R"({"process":{"user":{"uid":1000,"gid":50}}})");
  const Json devices =
      edited(user.dump(), with_nodes({{.path = "/dev/a"}, {.path = "/dev/b", .uid = 0, .gid = 7}}))["linux"]["devices"];
  EXPECT_EQ(devices[0]["uid"], 1000);
  EXPECT_EQ(devices[0]["gid"], 50);
  EXPECT_EQ(devices[1]["uid"], 0);
  EXPECT_EQ(devices[1]["gid"], 7);
}

TEST(ConfigEdits, RefuseANodeThatTheHostLacksOrHasDifferently) {
  ContainerConfig config = config_of("{}");
  auto applied = config.apply(with_nodes({{.path = "/dev/none"}}), host_node);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().message, "/dev/none is not there");
  applied = config.apply(with_nodes({{.path = "/dev/disk", .type = "c"}}), host_node);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().message, "/dev/disk is a node of type b, and a CDI file calls it c");
}

TEST(ConfigEdits, ReplaceAMountAndSortByDepth) {
  Edits edits;
  edits.mounts = {{.host_path = "/h/deep", .container_path = "/a/b/c", .type = "bind", .options = {"bind", "ro"}},
                  {.host_path = "/h/a", .container_path = "/a", .type = "", .options = {}}};
  const Json after = edited(R"({"mounts":[{"destination":"/z/y/x"},{"destination":"/a","source":"old"},
    {"destination":"/proc/","x":1}]})",
                            edits);
  EXPECT_EQ(after["mounts"], Json::parse(R"([{"destination":"/proc/","x":1},{"destination":"/a","source":"/h/a"},
    {"destination":"/z/y/x"},
    {"destination":"/a/b/c","source":"/h/deep","type":"bind","options":["bind","ro"]}])"));
  EXPECT_EQ(edited(R"({"mounts":[{"destination":"/a/b"},{"destination":"/c"}]})", Edits{})["mounts"][0]["destination"],
            "/a/b")
      << "not sorted without a mount";
}

TEST(ConfigEdits, MapTheIdsOfBindMountsInAUserNamespace) {
  Edits edits;
  edits.mounts = {{.host_path = "/a", .container_path = "/a", .type = "bind", .options = {}},
                  {.host_path = "t", .container_path = "/t", .type = "tmpfs", .options = {}},
                  {.host_path = "/r", .container_path = "/r", .type = "", .options = {"rbind", "ridmap"}}};
  const Json after = edited(R"({"linux":{"namespaces":[{"type":"pid"},{"type":"user"}]}})", edits)["mounts"];
  EXPECT_EQ(after[0]["options"], Json({"idmap"}));
  EXPECT_FALSE(after[1].contains("options"));
  EXPECT_EQ(after[2]["options"], Json({"rbind", "ridmap"}));
}

TEST(ConfigEdits, AddHooksGroupsInterfacesAndTheClassOfService) {
  Edits edits;
  edits.hooks = {{.name = "createRuntime", .path = "/h", .args = {"h", "x"}, .env = {}, .timeout_s = 5},
                 {.name = "prestart", .path = "/p", .args = {}, .env = {"A=b"}, .timeout_s = {}}};
  edits.additional_gids = {0, 44, 5, 44};
  edits.net_devices = {{.host_interface = "eth1", .name = "net0"}};
  edits.intel_rdt = IntelRdt{.clos_id = "c", .enable_cmt = true};
  EXPECT_EQ(
      edited(R"({"hooks":{"createRuntime":[{"path":"/first"}]},"process":{"user":{"additionalGids":[5]}}})", edits),
      Json::parse(R"({"hooks":{"createRuntime":[{"path":"/first"},{"path":"/h","args":["h","x"],"timeout":5}],
                                     "prestart":[{"path":"/p","env":["A=b"]}]},
                            "process":{"user":{"additionalGids":[5,44]}},
                            "linux":{"netDevices":{"eth1":{"name":"net0"}},"intelRdt":{"closID":"c","enableCMT":true}}})"));
}

struct BadConfig {
  const char* text;
  const char* says;
};

TEST(ContainerConfig, RefusesInvalidDocuments) {
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']'), big(10 << 20, ' ');
  const BadConfig bad[] = {
      {"", "config.json is no JSON"},
      {R"({"process":{"env":["A=b")", "config.json is no JSON"},
      {"[]", "config.json is no object"},
      {deep.c_str(), "config.json is nested more than 64 deep"},
      {big.c_str(), "config.json is longer than 4 MiB"},
      {R"({"process":1,"process":2})", "config.json has the field 'process' twice"},
      {R"({"process":1})", "config.json: process: is no object"},
      {R"({"process":{"env":{}}})", "config.json: process.env: is no list"},
      {R"({"process":{"env":["A=b",1]}})", "config.json: process.env[1]: is no text"},
      {R"({"process":{"user":{"uid":-1}}})", "config.json: process.user.uid: is no user"},
      {R"({"process":{"user":{"additionalGids":["a"]}}})", "config.json: process.user.additionalGids[0]: is no group"},
      {R"({"hooks":[]})", "config.json: hooks: is no object"},
      {R"({"hooks":{"prestart":{}}})", "config.json: hooks.prestart: is no list"},
      {R"({"hooks":{"prestart":[{}]}})", "config.json: hooks.prestart[0]: has no text 'path'"},
      {R"({"mounts":[{"destination":1}]})", "config.json: mounts[0]: has no text 'destination'"},
      {R"({"linux":{"devices":[1]}})", "config.json: linux.devices[0]: is no object"},
      {R"({"linux":{"namespaces":[{}]}})", "config.json: linux.namespaces[0]: has no text 'type'"},
      {R"({"linux":{"resources":{"devices":{}}}})", "config.json: linux.resources.devices: is no list"},
      {R"({"annotations":{"a":1}})", "config.json: annotations.a: is no text"},
      {R"({"root":{"path":[]}})", "config.json: root.path: is no text"},
  };
  for (const BadConfig& each : bad) {
    const auto read = ContainerConfig::read(each.text);
    ASSERT_FALSE(read) << each.says;
    EXPECT_EQ(read.error().message, each.says);
  }
}

TEST(ContainerConfig, KeepsNumbersAndUnknownFieldsAsTheyAre) {
  const char* const text =
      R"({"a":{"b":[18446744073709551615,-9223372036854775808,0.1,true,null,"\u00e9\n"]},"linux":null,"process":{"env":null}})";
  EXPECT_EQ(Json::parse(config_of(text).text()), Json::parse(text));
  EXPECT_EQ(config_of(text).variable("A"), std::nullopt);
  EXPECT_EQ(config_of(R"({"process":{"env":["A=1","A=2","AB=3","A"]}})").variable("A"), "2");
}

}  // namespace
}  // namespace headgate::oci
