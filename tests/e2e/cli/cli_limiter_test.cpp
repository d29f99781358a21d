// headgate limiter install and remove: files written, merged and refused. Their effect: preload_root_test.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

constexpr const char* kRoot =
    "cd $D; mkdir -p root/etc root/lib root/lib64; for l in lib64/ld-linux-x86-64.so.2 lib/ld-linux-aarch64.so.1; do "
    "ln -s /away/$l root/$l; done; ";

TEST(CliLimiter, InstallWritesLibrariesAndListAndExplainsTheMount) {
  const Cli cli;
  Said said = cli.shell("cd $D; umask 077; $H limiter install new/guest");
  EXPECT_EQ(said.status, 0) << said.err;
  const std::string at = cli.directory() + "/new/guest";
  EXPECT_EQ(said.out,
            at + "/libheadgate-path.so\n" + at + "/libheadgate.so\n" + at +
                "/ld.so.preload\n\nEvery program of a container is in the share NAME with (docker, podman):\n  -v " +
                at + ":" + at + ":ro -v " + at +
                "/ld.so.preload:/etc/ld.so.preload:ro -v /run/headgate/shares/NAME:/run/headgate/share:ro\n");
  EXPECT_EQ(cli.shell("cd $D/new; stat -c '%a %n' . guest guest/*; cat guest/ld.so.preload").out,
            "755 .\n755 guest\n644 guest/ld.so.preload\n644 guest/libheadgate-path.so\n644 guest/libheadgate.so\n" +
                at + "/libheadgate.so\n")
      << "anybody's programs can load it";
  EXPECT_EQ(cli.shell("cmp $D/new/guest/libheadgate.so ${H%/*}/../lib/libheadgate.so").status, 0);

  // A process that has the old library mapped keeps it.
  said = cli.shell(
      "cd $D/new; exec 3< guest/libheadgate.so; $H limiter install --at /opt/x guest/ -o json && "
      "[ /proc/self/fd/3 -ef guest/libheadgate.so ] || cat guest/ld.so.preload");
  ASSERT_TRUE(said.out.ends_with("}\n/opt/x/libheadgate.so\n")) << said.out;
  const auto document = nlohmann::json::parse(said.out.substr(0, said.out.rfind('}') + 1));
  EXPECT_EQ(document.at("schema"), "headgate.limiter_files/v1");
  EXPECT_EQ(document.at("mounts"), nlohmann::json({at + ":/opt/x:ro", at + "/ld.so.preload:/etc/ld.so.preload:ro"}));

  EXPECT_EQ(cli.shell("cd $D/new; $H limiter remove guest").out,
            at + "/ld.so.preload\n" + at + "/libheadgate-path.so\n" + at + "/libheadgate.so\n");
  said = cli.shell("cd $D; $H limiter remove new/guest; ls -A new");
  EXPECT_EQ(said.status, 0) << "what is not there is no error: " << said.err;
  EXPECT_EQ(said.out, "");
}

TEST(CliLimiter, TheRootsListKeepsItsEntries) {
  const Cli cli;
  const std::string root = kRoot;
  Said said =
      cli.shell(root +
                "printf '# site\\n/site.so' > root/etc/ld.so.preload; for i in 1 2; do $H limiter install --root "
                "root /usr/lib/headgate; done; cat root/etc/ld.so.preload");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.out.ends_with("share:ro\n# site\n/site.so\n/usr/lib/headgate/libheadgate.so\n")) << said.out;
  said = cli.shell(
      "cd $D; $H limiter remove --root root /usr/lib/headgate; cat root/etc/ld.so.preload; find root -name "
      "'*headgate*'");
  EXPECT_TRUE(said.out.ends_with("libheadgate.so\n# site\n/site.so\n")) << said.out << said.err;
}

TEST(CliLimiter, InstallRefusesPlacesThatWouldHoldNoProgram) {
  const Cli cli;
  const std::string root = kRoot;
  struct Bad {
    const char *line, *message;
    int status;
  };
  for (const Bad& bad : {
           Bad{"$H limiter install --root / /usr/lib/headgate-test", "'/' is the root of this machine", 2},
           Bad{"$H limiter install --root /tmp/.. /usr/lib/headgate-test", "is the root of this machine", 2},
           Bad{"$H limiter install --whole-host there", "--whole-host without --root", 2},
           Bad{"$H limiter install --root root --at /x /usr/lib/headgate", "--at with --root", 2},
           Bad{"$H limiter install --root root usr/lib/headgate", "is no plain absolute path", 2},
           Bad{"$H limiter install --root root /usr/../../there", "is no plain absolute path", 2},
           Bad{"$H limiter install --root root '/with space'", "cannot stand in ld.so.preload", 2},
           Bad{"$H limiter install --root missing /usr/lib/headgate", "cannot open the root 'missing'", 1},
           Bad{"rm root/lib64/ld* root/lib/ld*; $H limiter install --root root /usr/lib/headgate", "programs of musl",
               6},
           Bad{"mv root/etc root/real; ln -s $D/real root/etc; $H limiter install --root root /usr/lib/headgate",
               "links are not followed inside a root", 2},
           Bad{"mkdir there; ln -s $D/there root/usr; $H limiter install --root root /usr/lib/headgate",
               "links are not followed inside a root", 2},
           Bad{"ln -s $D/there root/etc/ld.so.preload; $H limiter install --root root /usr/lib/headgate",
               "root/etc/ld.so.preload' is no plain file", 1},
           Bad{"mkfifo root/etc/ld.so.preload; $H limiter install --root root /usr/lib/headgate", "is no plain file",
               1},
           Bad{"head -c 70000 /dev/zero > root/etc/ld.so.preload; $H limiter install --root root /usr/lib/headgate",
               "has more than 64 KiB", 1},
           Bad{"mkdir -p root/usr/lib/headgate/libheadgate.so; $H limiter install --root root /usr/lib/headgate",
               "cannot replace 'root/usr/lib/headgate/libheadgate.so'", 1},
           Bad{"$H limiter", "limiter needs a command", 2},
       }) {
    const Said said = cli.shell("rm -rf $D/case; mkdir $D/case; D=$D/case; " + root + bad.line);
    EXPECT_EQ(said.status, bad.status) << bad.line << "\n" << said.err;
    EXPECT_TRUE(said.err.contains(bad.message)) << bad.line << "\n" << said.err;
    EXPECT_EQ(cli.shell("cd $D/case; ls there 2>/dev/null; grep -rs headgate root real; find . -name '*.new*'").out, "")
        << bad.line;
  }
}

TEST(CliLimiter, AFullDiskLeavesTheListUnchanged) {
  if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
  const Cli cli;
  const Said said = cli.shell(
      "cd $D; mkdir full; exec unshare -m sh -c 'mount -t tmpfs -o size=64k,mode=700 none full && cp -r /dev/null "
      "full/x && "
      "echo /site.so > full/ld.so.preload && $H limiter install full; echo $?; cat full/ld.so.preload; ls full'");
  EXPECT_EQ(said.out, "4\n/site.so\nld.so.preload\nlibheadgate-path.so\nx\n") << said.err;
  EXPECT_TRUE(said.err.contains("cannot write '") && said.err.contains("more room")) << said.err;
}

}  // namespace
}  // namespace headgate::e2e
