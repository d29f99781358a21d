// headgate dashboards export: the files that lie in deploy/.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

TEST(CliDashboards, AreWrittenOnceAndReplacedOnlyWhenThatIsSaid) {
  const Cli cli;
  Said said = cli.shell("cd $D; $H dashboards export new/boards");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out, "new/boards/headgate.json\nnew/boards/headgate.rules.yml\n");
  EXPECT_EQ(json::parse(cli.shell("cat $D/new/boards/headgate.json").out).at("title"), "headgate");
  EXPECT_EQ(
      cli.shell("cmp " BOARD " $D/new/boards/headgate.json && cmp " RULES " $D/new/boards/headgate.rules.yml").status,
      0);
  said = cli.shell(
      "cd $D; echo mine > new/boards/headgate.rules.yml; rm new/boards/headgate.json; $H dashboards export "
      "new/boards; echo $?; ls new/boards; cat new/boards/*");
  EXPECT_EQ(said.out, "2\nheadgate.rules.yml\nmine\n") << "all or nothing";
  EXPECT_EQ(said.err,
            "headgate: 'new/boards/headgate.rules.yml' exists already\n          --force replaces it; or name "
            "another directory\n");
  EXPECT_EQ(cli.shell("cd $D; $H dashboards export new/boards --force > /dev/null && cmp " RULES
                      " new/boards/headgate.rules.yml && ls "
                      "new/boards")
                .out,
            "headgate.json\nheadgate.rules.yml\n");
  EXPECT_EQ(cli.shell("cd $D; echo > file; $H dashboards export file").status, 1);
}

}  // namespace
}  // namespace headgate::e2e
