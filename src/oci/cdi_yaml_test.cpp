
#include <gtest/gtest.h>

#include "oci/cdi_read.hpp"
#include "oci/gpu_inventory.hpp"

namespace headgate::oci {
namespace {

std::string json(const std::string& yaml) {
  const auto text = json_from_yaml(yaml);
  return text ? *text : text.error().message;
}

// Has the form that `nvidia-ctk cdi generate` writes without --format.
constexpr const char* kNvidia = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              fileMode: 438
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args:
            - nvidia-cdi-hook
            - update-ldcache
          env:
            - NVIDIA_CTK_DEBUG=false
    mounts:
        - hostPath: /lib/x86_64-linux-gnu/libcuda.so.999.88.77
          containerPath: /lib/x86_64-linux-gnu/libcuda.so.999.88.77
          options:
            - ro
            - rbind
)";

TEST(CdiYaml, EqualsTheDocumentOfItsJson) {
  const auto document = read_file_text("nvidia.yaml", kNvidia);
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->version, "0.5.0");
  ASSERT_EQ(document->devices.size(), 2u);
  EXPECT_EQ(document->devices[0].name, "0");
  EXPECT_EQ(document->devices[0].edits.device_nodes.at(0).file_mode, 0666u);
  EXPECT_EQ(document->edits.hooks.at(0).args, (std::vector<std::string>{"nvidia-cdi-hook", "update-ldcache"}));
  EXPECT_EQ(document->edits.mounts.at(0).options, (std::vector<std::string>{"ro", "rbind"}));
  EXPECT_EQ(*read_json(to_json(*document)), *document);
  EXPECT_TRUE(gpu_driver(*document, std::vector<GpuRef>{{"GPU-x", 0}}));
  EXPECT_FALSE(read_file_text("nvidia.json", kNvidia)) << "by the name, as engines go by it";
}

TEST(CdiYaml, ReadsPlainScalarsByYamlsRules) {
  EXPECT_EQ(json("[a, \"1\", '2', 3, -4, 0x10, 0o17, 0666, 1.5, true, Yes, off, ~, null, 0.5.0, 09, inf, nan]"),
            R"(["a","1","2",3,-4,16,15,438,1.5,true,true,false,null,null,"0.5.0",9.0,"inf","nan"])");
  EXPECT_EQ(json("{a: , b: {c: [d]}}"), R"({"a":null,"b":{"c":["d"]}})");
  EXPECT_EQ(json("a: &x 1\nb: *x"), R"({"a":1,"b":1})");
  EXPECT_EQ(json(""), "null");
}

TEST(CdiYaml, NamesThePlaceOfAMistake) {
  EXPECT_TRUE(json("a: [1").starts_with("line 1: is no YAML: ")) << json("a: [1");
  EXPECT_EQ(json("a: 1\na: 2"), "line 2: has the field 'a' twice");
  EXPECT_EQ(json("a: !!binary x"), "line 1: has the tag 'tag:yaml.org,2002:binary'");
  EXPECT_EQ(json("? [a]\n: 1"), "line 1: a key is no text");
  EXPECT_EQ(json(std::string(100, '[') + std::string(100, ']')), "line 1: is nested more than 16 deep");
  EXPECT_EQ(json("a: &a [*a]"), "line 1: is nested more than 16 deep");
  EXPECT_EQ(json(std::string((1 << 20) + 1, ' ')), "is longer than 1 MiB");
}

TEST(CdiYaml, LimitsNestedAliases) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'k'; ++name) {
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i == 0 ? "*" : ", *") + static_cast<char>(name - 1);
    bomb += "]\n";
  }
  EXPECT_TRUE(json(bomb).ends_with("has more than 100000 values, those of aliases counted"))
      << json(bomb).substr(0, 80);
}

}  // namespace
}  // namespace headgate::oci
