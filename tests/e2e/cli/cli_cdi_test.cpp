// headgate cdi list and validate: how engines interpret CDI files, and why they reject one.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

// Two directories; a has the lower priority. `one FILE NAME` writes a document with one device.
constexpr const char* kFiles = R"sh(cd $D; mkdir a b
one() { printf '{"cdiVersion":"0.7.0","kind":"v/c","devices":[{"name":"%s","containerEdits":{"env":["A=b"]}}]}' $2 > $1; }
)sh";

TEST(CliCdi, AFileIsValidOrTheReasonIsNamed) {
  const Cli cli;
  Said said = cli.shell(std::string(kFiles) + R"sh(one a/x.json 0
    printf 'cdiVersion: 0.3.0\nkind: v/c\ndevices: [{name: b, containerEdits: {env: [A=b]}}]\n' > a/y.yaml
    $H cdi validate a/x.json a/y.yaml)sh");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out,
            "a/x.json: ok, 1 device, CDI 0.7.0 (0.5.0 has all that it needs)\na/y.yaml: ok, 1 device, CDI 0.3.0\n");
  said = cli.shell(std::string(R"sh(cd $D; printf '{"cdiVersion":"9"}' > a/z.json; $H cdi validate a)sh"));
  EXPECT_EQ(said.status, 1);
  EXPECT_TRUE(said.out.contains("a/z.json: has no 'kind'\n")) << said.out;
  said = cli.shell("cd $D; $H cdi validate nothing");
  EXPECT_EQ(said.status, 2);
  EXPECT_TRUE(said.err.contains("there is no 'nothing'")) << said.err;
}

TEST(CliCdi, DevicesAreListedWithReasonsForUnusableOnes) {
  const Cli cli;
  const Said said =
      cli.shell(std::string(kFiles) + R"sh(one a/x.json both; one b/x.json both; one b/y.json y; one b/z.json y
    echo '[' > b/bad.json; echo 'no CDI file' > b/other.txt
    $H cdi list a b; $H cdi list a b --json > json)sh");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out,
            "DEVICE    VERSION  FILE        STATE\n"
            "v/c=both  0.7.0    a/x.json    shadowed by b/x.json\n"
            "v/c=both  0.7.0    b/x.json    ok\n"
            "v/c=y     0.7.0    b/y.json    in conflict with b/z.json\n"
            "v/c=y     0.7.0    b/z.json    in conflict with b/y.json\n"
            "-         -        b/bad.json  is no JSON\n");
  const auto document = nlohmann::json::parse(cli.shell("cat $D/json").out);
  EXPECT_EQ(document["files"].size(), 5u);
  EXPECT_EQ(document["devices"][0]["problem"], "shadowed by b/x.json");
}

TEST(CliCdi, ANodeWithoutADriverHasNothingToGenerate) {
  if (std::filesystem::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine has a driver";
  const Cli cli;
  const Said said = cli.shell("$H cdi generate");
  EXPECT_EQ(said.status, 2);
  EXPECT_EQ(said.out, "");
  EXPECT_TRUE(said.err.contains("this node has no NVIDIA driver")) << said.err;
}

}  // namespace
}  // namespace headgate::e2e
