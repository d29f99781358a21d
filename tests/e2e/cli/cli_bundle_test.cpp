// headgate support-bundle: what the archive contains, and what it must not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

TEST(CliBundle, IsAReadableArchiveWithTheListedContent) {
  const Cli cli;
  const Said said = cli.shell("cd $D; mkdir tmp; TMPDIR=$D/tmp $H support-bundle b.tgz --sim --json");
  ASSERT_EQ(said.status, 0) << said.err;
  const json told = json::parse(said.out);
  EXPECT_EQ(told.at("schema"), "headgate.support_bundle/v1");
  EXPECT_EQ(told.at("redacted"), true);
  EXPECT_EQ(cli.shell("stat -c %a $D/b.tgz").out, "600\n");
  EXPECT_EQ(cli.shell("ls $D/tmp").out, "") << "nothing is left beside it";
  const std::string names = cli.shell("tar -tzf $D/b.tgz").out;
  EXPECT_NE(names.find("headgate-support/MANIFEST.json\n"), std::string::npos) << names;
  for (const json& file : told.at("files")) {
    const std::string name = file.at("name");
    EXPECT_NE(names.find("headgate-support/" + name + "\n"), std::string::npos) << name;
    EXPECT_NE(said.err.find("headgate: " + name), std::string::npos) << said.err;
  }
  for (const char* name : {"snapshot", "config", "doctor", "version", "events"})
    EXPECT_TRUE(json::accept(cli.shell("tar -xzOf $D/b.tgz headgate-support/" + std::string(name) + ".json").out))
        << name;
  EXPECT_NE(said.err.find("metrics"), std::string::npos) << "what is lacking without a daemon is said";
}

TEST(CliBundle, HasNoNamesAndNeverTokens) {
  const Cli cli;
  const std::string line =
      "cd $D; printf 't0ken-very-secret\\n' > token; printf '[node]\\ntoken_file = \"%s/token\"\\nnames = "
      "\"t0ken-very-secret, gpu-box.example.org\"\\n' $D > c.toml; USER=secret-user $H support-bundle b.tgz --sim "
      "--config c.toml ";
  ASSERT_EQ(cli.shell(line).status, 0);
  const std::string everything = "tar -xzOf $D/b.tgz";
  EXPECT_EQ(cli.shell(everything + " | grep -c -e t0ken -e gpu-box -e secret-user -e \"$D\"").out, "0\n");
  EXPECT_EQ(cli.shell("h=$(uname -n); [ \"$h\" = localhost ] || " + everything + " | grep -cw -e \"\\\"$h\\\"\"").out,
            "0\n");
  ASSERT_EQ(cli.shell("rm $D/b.tgz; " + line + "--no-redact").status, 0);
  EXPECT_EQ(cli.shell(everything + " | grep -c t0ken").out, "0\n");
  EXPECT_NE(cli.shell(everything + " | grep -c \"$D\"").out, "0\n");
}

TEST(CliBundle, RefusesToReplaceAFileAndLeavesNothingOnFailure) {
  const Cli cli;
  Said said = cli.shell("cd $D; echo mine > b.tgz; $H support-bundle b.tgz --sim; echo $?; cat b.tgz");
  EXPECT_EQ(said.out, "2\nmine\n");
  EXPECT_EQ(said.err, "headgate: 'b.tgz' exists already\n          name a file that does not, or move it away\n");
  EXPECT_EQ(cli.shell("cd $D; ln -s nowhere l.tgz; $H support-bundle l.tgz --sim").status, 2) << "nor through a link";
  said = cli.shell("$H support-bundle $D/no/such/b.tgz --sim");
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.err.find("/no/such/b.tgz': No such file or directory"), std::string::npos) << said.err;
}

TEST(CliBundle, LeavesNothingOnAFullDisk) {
  if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
  const Cli cli;
  const Said said = cli.shell(
      "cd $D; mkdir tmp full; export TMPDIR=$D/tmp; unshare -m sh -c 'mount -t tmpfs -o size=4k,mode=700 none full && "
      "head -c 4096 /dev/zero > full/all && "
      "$H "
      "support-bundle full/b.tgz --sim; echo $?; ls tmp full'");
  EXPECT_EQ(said.out, "4\nfull:\nall\n\ntmp:\n") << said.err;
  EXPECT_EQ(
      said.err,
      "headgate: cannot write 'full/b.tgz': No space left on device\n          name a file on a disk with more room\n");
}

}  // namespace
}  // namespace headgate::e2e
