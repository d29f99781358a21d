#include "oci/cdi_read.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

Document with_everything() {
  Edits edits;
  edits.env = {"A=b=c"};
  edits.device_nodes = {{.path = "/dev/a",
                         .host_path = "/dev/b",
                         .type = "c",
                         .major = 195,
                         .minor = 0,
                         .file_mode = 0666,
                         .permissions = "rw",
                         .uid = 1,
                         .gid = 2}};
  edits.net_devices = {{"eth0", "net0"}};
  edits.hooks = {{.name = "createRuntime", .path = "/h", .args = {"h", "x"}, .env = {"C=d"}, .timeout_s = 5}};
  edits.mounts = {{.host_path = "/x", .container_path = "/y", .type = "bind", .options = {"ro", "bind"}}};
  edits.intel_rdt = {.clos_id = "gold",
                     .l3_cache_schema = "a",
                     .mem_bw_schema = "b",
                     .enable_cmt = true,
                     .enable_mbm = true,
                     .schemata = {"s"},
                     .enable_monitoring = true};
  edits.additional_gids = {0, 44};
  Edits none;
  return {.version = "1.1.0",
          .kind = "vendor.com/class",
          .annotations = {{"k", "v"}},
          .devices = {{.name = "one", .annotations = {{"l", "w"}}, .edits = edits},
                      {.name = "0:1",
                       .annotations = {},
                       .edits = {.env = {"X="},
                                 .device_nodes = {},
                                 .net_devices = {},
                                 .hooks = {},
                                 .mounts = {},
                                 .intel_rdt = {},
                                 .additional_gids = {}}}},
          .edits = edits};
}

std::string trouble(const std::string& text) {
  const auto read = read_json(text);
  return read ? "" : read.error().message;
}

// Checks a document with one device that has the edits `edits`.
std::string trouble_of(const std::string& edits, const std::string& version = "1.1.0") {
  return trouble(R"({"cdiVersion":")" + version + R"(","kind":"v/c","devices":[{"name":"a","containerEdits":)" + edits +
                 "}]}");
}

TEST(CdiJson, SurvivesARoundTrip) {
  const Document document = with_everything();
  const auto read = read_json(to_json(document));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, document);
}

TEST(CdiJson, OmitsMissingFields) {
  Document document;
  document.version = "0.3.0";
  document.kind = "v/c";
  document.devices = {{.name = "a", .annotations = {}, .edits = {}}};
  document.devices[0].edits.env = {"A=b"};
  EXPECT_EQ(to_json(document), R"({
  "cdiVersion": "0.3.0",
  "kind": "v/c",
  "devices": [
    {
      "name": "a",
      "containerEdits": {
        "env": [
          "A=b"
        ]
      }
    }
  ]
}
)");
}

TEST(CdiReader, AcceptsAVersionWithALeadingLetter) {
  const auto read =
      read_json(R"({"cdiVersion":"v0.5.0","kind":"v/c","devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->version, "0.5.0");
}

TEST(CdiReader, NamesWhatIsInvalidInADocument) {
  EXPECT_EQ(trouble(""), "is no JSON");
  EXPECT_EQ(trouble("{\"cdiVersion\":"), "is no JSON");
  EXPECT_EQ(trouble("[]"), "is no object");
  EXPECT_EQ(trouble("{}"), "has no 'cdiVersion'");
  EXPECT_EQ(trouble(R"({"cdiVersion":"0.3.0"})"), "has no 'kind'");
  EXPECT_EQ(trouble(R"({"cdiVersion":"0.3.0","kind":"v/c"})"), "devices: there is none");
  EXPECT_EQ(trouble(R"({"cdiVersion":"0.3.0","kind":"v/c","devices":{}})"), "devices: is no list");
  EXPECT_EQ(trouble(R"({"cdiVersion":"0.3.0","kind":"v/c","devices":[],"extra":1})"), "has an unknown field 'extra'");
  EXPECT_EQ(trouble(R"({"kind":"v/c","kind":"v/d"})"), "has the field 'kind' twice");
  EXPECT_EQ(trouble(std::string(10'000, '[')), "is nested more than 16 deep");
  EXPECT_EQ(trouble(std::string(kMaxDocumentBytes + 1, ' ')), "is longer than 4 MiB");
}

TEST(CdiReader, NamesAnInvalidName) {
  const auto with = [](const std::string& version, const std::string& kind, const std::string& names) {
    std::string devices;
    for (const char name : names)
      devices +=
          std::string(devices.empty() ? "" : ",") + R"({"name":")" + name + R"(","containerEdits":{"env":["A=b"]}})";
    return trouble(R"({"cdiVersion":")" + version + R"(","kind":")" + kind + R"(","devices":[)" + devices + "]}");
  };
  EXPECT_EQ(with("0.5.0", "v/c", "ab"), "");
  EXPECT_EQ(with("0.2.0", "v/c", "a"), "cdiVersion: '0.2.0' is no version of CDI");
  EXPECT_EQ(with("2.0.0", "v/c", "a"), "cdiVersion: '2.0.0' is no version of CDI");
  EXPECT_EQ(with("0.5.0", "v", "a"), "kind: 'v' is no kind of device");
  EXPECT_EQ(with("0.5.0", "v/c", "_"), "devices[0].name: '_' names no device");
  EXPECT_EQ(with("0.5.0", "v/c", "aba"), "devices[2].name: 'a' is there twice");
  EXPECT_EQ(with("0.4.0", "v/c", "1"), "cdiVersion: 0.4.0 does not have all fields of the document");
  EXPECT_EQ(with("0.5.0", "v/c.d", "a"), "cdiVersion: 0.5.0 does not have all fields of the document");
}

TEST(CdiReader, NamesAnInvalidEdit) {
  const std::string in = "devices[0].containerEdits";
  EXPECT_EQ(trouble_of("{}"), in + ": there are none");
  EXPECT_EQ(trouble_of("[]"), in + ": is no object");
  EXPECT_EQ(trouble_of(R"({"env":"A=b"})"), in + ".env: is no list");
  EXPECT_EQ(trouble_of(R"({"env":[1]})"), in + ".env[0]: is no text");
  EXPECT_EQ(trouble_of(R"({"env":["A"]})"), in + ".env[0]: 'A' is no NAME=VALUE");
  EXPECT_EQ(trouble_of(R"({"env":["A=b","=b"]})"), in + ".env[1]: '=b' is no NAME=VALUE");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{}]})"), in + ".deviceNodes[0]: has no 'path'");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":""}]})"), in + ".deviceNodes[0].path: is empty");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","type":"x"}]})"),
            in + ".deviceNodes[0].type: 'x' is no kind of node");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","permissions":"rx"}]})"),
            in + ".deviceNodes[0].permissions: 'rx' is not understood");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","permissions":"none"}]})"), "");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","uid":-1}]})"),
            in + ".deviceNodes[0].uid: is no whole number in its range");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","gid":4294967296}]})"),
            in + ".deviceNodes[0].gid: is no whole number in its range");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","major":-1}]})"), in + ".deviceNodes[0]: has a negative number");
  EXPECT_EQ(trouble_of(R"({"deviceNodes":[{"path":"/d","major":1.5}]})"),
            in + ".deviceNodes[0].major: is no whole number in its range");
  EXPECT_EQ(trouble_of(R"({"hooks":{"hookName":"prestart","path":"/h"}})"), in + ".hooks: is no list");
  EXPECT_EQ(trouble_of(R"({"hooks":[{"hookName":"start","path":"/h"}]})"),
            in + ".hooks[0].hookName: 'start' is no hook");
  EXPECT_EQ(trouble_of(R"({"hooks":[{"hookName":"","path":"/h"}]})"), in + ".hooks[0].hookName: '' is no hook");
  EXPECT_EQ(trouble_of(R"({"hooks":[{"hookName":"prestart","path":""}]})"), in + ".hooks[0].path: is empty");
  EXPECT_EQ(trouble_of(R"({"hooks":[{"hookName":"prestart","path":"/h","env":["A"]}]})"),
            in + ".hooks[0].env[0]: 'A' is no NAME=VALUE");
  EXPECT_EQ(trouble_of(R"({"mounts":[{"hostPath":"","containerPath":"/b"}]})"), in + ".mounts[0].hostPath: is empty");
  EXPECT_EQ(trouble_of(R"({"mounts":[{"hostPath":"/a","containerPath":"/b","x":1}]})"),
            in + ".mounts[0]: has an unknown field 'x'");
  EXPECT_EQ(trouble_of(R"({"intelRdt":{"closID":"a/b"}})"), in + ".intelRdt.closID: 'a/b' names no directory");
  EXPECT_EQ(trouble_of(R"({"intelRdt":{"closID":"/"}})"), "");
  EXPECT_EQ(trouble_of(R"({"intelRdt":{"enableCMT":1}})"), in + ".intelRdt.enableCMT: is neither true nor false");
  EXPECT_EQ(trouble_of(R"({"netDevices":[{"hostInterfaceName":"a","name":"x"},{"hostInterfaceName":"b","name":"x"}]})"),
            in + ".netDevices[1]: names an interface for the second time");
  EXPECT_EQ(trouble_of(R"({"netDevices":[{"hostInterfaceName":"a","name":"x"}]})", "1.0.0"),
            "cdiVersion: 1.0.0 does not have all fields of the document");
}

}  // namespace
}  // namespace headgate::oci
