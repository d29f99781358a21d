#include "cli/support/engine_settings.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

constexpr const char* kProgram = "/usr/bin/headgate-oci";

std::string with(std::string_view text) {
  const auto after = with_docker_runtime(text, kProgram);
  return after ? *after : "error: " + after.error().message;
}
std::string without(std::string_view text) {
  const auto after = without_docker_runtime(text);
  return after ? *after : "error: " + after.error().message;
}

TEST(DockerSettings, GainTheRuntimeOnceAndKeepTheRest) {
  const std::string made = with("");
  EXPECT_EQ(made, R"({
    "runtimes": {
        "headgate": {
            "path": "/usr/bin/headgate-oci"
        }
    },
    "features": {
        "cdi": true
    }
}
)");
  EXPECT_EQ(with(made), made) << "safe twice";
  const std::string own =
      "{\n  \"data-root\": \"/d\",\n  \"runtimes\": {\n    \"x\": {\n      \"path\": \"/x\"\n    }\n  }\n}\n";
  const std::string after = with(own);
  EXPECT_TRUE(after.starts_with("{\n  \"data-root\": \"/d\",\n  \"runtimes\": {\n    \"x\": {\n")) << after;
  EXPECT_EQ(with(after), after);
  EXPECT_TRUE(with(R"({"runtimes":{"headgate":{"path":"/old"}}})").contains("\"/usr/bin/headgate-oci\""));
}

TEST(DockerSettings, LoseOnlyTheRuntime) {
  const std::string own = "{\n  \"data-root\": \"/d\"\n}\n";
  EXPECT_EQ(without(own), own);
  EXPECT_EQ(without(with(own)), "{\n  \"data-root\": \"/d\",\n  \"features\": {\n    \"cdi\": true\n  }\n}\n");
  EXPECT_EQ(without(R"({"runtimes":{"headgate":{"path":"/a"}}})"), "");
  EXPECT_EQ(without(""), "");
}

TEST(DockerSettings, StayUnchangedIfThereAreNone) {
  EXPECT_EQ(with("{"), "error: is no JSON");
  EXPECT_EQ(with("[]"), "error: it is no object");
  EXPECT_EQ(with(R"({"runtimes":[]})"), "error: runtimes is no object");
  EXPECT_EQ(with(R"({"features":1})"), "error: features is no object");
  EXPECT_EQ(without(R"({"a":1,"a":2})"), "error: has the field 'a' twice");
}

TEST(LineDiff, ShowsRemovedAndAddedLines) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nX\nY\nf\n"),
            (Lines{"  b", "  c", "  d", "- e", "+ X", "+ Y", "  f"}));
  EXPECT_EQ(line_diff("", "a\n"), Lines{"+ a"});
  EXPECT_EQ(line_diff("a\n", ""), Lines{"- a"});
  EXPECT_EQ(line_diff("a\na\n", "a\na\na\n"), (Lines{"  a", "  a", "+ a"}));
}

}  // namespace
}  // namespace headgate::cli
