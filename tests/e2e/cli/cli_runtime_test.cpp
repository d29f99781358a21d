// headgate runtime configure and unconfigure: what they show, change and keep. headgate podman run: what it executes.
#include <gtest/gtest.h>

#include "cli_program.hpp"
#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

TEST(RuntimeConfigure, ShowsTheChangeThenKeepsTheFormerFile) {
  const Cli cli;
  Said said = cli.shell(
      "cd $D; printf '{\n  \"data-root\": \"/d\"\n}\n' > d.json; chmod 600 d.json; cp d.json own; "
      "$H runtime configure --docker --file d.json </dev/null; echo $?; cmp d.json own");
  EXPECT_EQ(said.out.find("d.json:\n  {\n- "), 0u) << said.out;
  EXPECT_TRUE(said.out.contains("+   \"data-root\": \"/d\",\n+   \"runtimes\": {\n+     \"headgate\": {\n"))
      << said.out;
  EXPECT_TRUE(said.out.ends_with("\n2\n")) << said.out;
  EXPECT_TRUE(said.err.contains("nothing was changed\n")) << said.err;
  said = cli.shell(
      "cd $D; $H runtime configure --docker --file d.json --yes && cmp d.json.before-headgate own && "
      "stat -c %a d.json d.json.before-headgate && cp d.json made");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(
      said.out.ends_with("the former file is d.json.before-headgate\nrestart dockerd; then: docker run --runtime "
                         "headgate --annotation headgate.io/share=NAME ...\n600\n600\n"))
      << said.out;
  said = cli.shell(
      "cd $D; $H runtime configure --docker --file d.json --yes && cmp d.json made && "
      "cmp d.json.before-headgate own");
  EXPECT_EQ(said.out, "d.json needs no change\n") << said.err;
  said = cli.shell("cd $D; $H runtime unconfigure --docker --file d.json --yes; cat d.json");
  EXPECT_TRUE(said.out.ends_with("{\n  \"data-root\": \"/d\",\n  \"features\": {\n    \"cdi\": true\n  }\n}\n"))
      << said.out;
}

TEST(RuntimeConfigure, MakesAndRemovesPodmansFile) {
  const Cli cli;
  Said said =
      cli.shell("cd $D; $H runtime configure --podman --file conf.d/headgate.conf --yes; cat conf.d/headgate.conf");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.out.contains("[engine.runtimes]\nheadgate = [\"/")) << said.out;
  said = cli.shell(
      "cd $D; $H runtime unconfigure --podman --file conf.d/headgate.conf --yes && ls conf.d; "
      "$H runtime unconfigure --podman --file conf.d/headgate.conf --yes");
  EXPECT_TRUE(said.out.contains("headgate.conf.before-headgate\n")) << said.out;
  EXPECT_TRUE(said.out.ends_with("conf.d/headgate.conf needs no change\n")) << said.out << said.err;
}

TEST(RuntimeConfigure, LeavesAFileThatItCannotRead) {
  const Cli cli;
  const Said said = cli.shell(
      "cd $D; echo '{\"runtimes\":[]}' > d.json; cp d.json own; "
      "$H runtime configure --docker --file d.json --yes; echo $?; cmp d.json own; ls d.json*");
  EXPECT_EQ(said.out, "2\nd.json\n");
  EXPECT_TRUE(said.err.contains("d.json: runtimes is no object")) << said.err;
  EXPECT_EQ(cli.shell("$H runtime configure").status, 2);
  EXPECT_EQ(cli.shell("$H runtime configure --docker --podman").status, 2);
  EXPECT_TRUE(cli.shell("$H runtime configure --containerd").out.contains("BinaryName = \"/"));
  EXPECT_TRUE(cli.shell("$H runtime configure --crio").out.contains("runtime_path = \"/"));
}

TEST(GpuDrivers, AreThoseOfProgramsOnPath) {
  const Cli cli;
  const Said said = cli.shell(
      "mkdir $D/bin; for each in nvidia-cdi-hook nvidia-container-runtime-hook; do cp /bin/true "
      "$D/bin/$each; done; PATH=$D/bin $H gpu ls --drivers; PATH=/nowhere $H gpu ls --drivers --json");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.out.contains("nvidia               gpu,nvidia,compute,compat32,graphics,utility,video,display\n"))
      << said.out;
  EXPECT_TRUE(said.out.contains("nvidia.cdi           -\nnvidia.runtime-hook  -\ncdi                  -\n"))
      << said.out;
  EXPECT_TRUE(said.out.contains("\"name\": \"amd\"")) << said.out;
}

TEST(EngineRun, ExecutesTheEngineWithTheSharesDevice) {
  const Cli cli;
  const Said said = cli.shell(
      "mkdir $D/bin; printf '#!/bin/sh\\nprintf \"%%s\\\\n\" \"$@\"\\n' > $D/bin/podman; chmod +x "
      "$D/bin/podman; PATH=$D/bin:$PATH; $H podman run --rm -q --share a -e 'X=a b' image -- -v --json");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out, "run\n--rm\n-q\n--device\nheadgate.io/share=a\n-e\nX=a b\nimage\n--\n-v\n--json\n");
  const Said refused = cli.shell("$H docker run image");
  EXPECT_EQ(refused.status, 125);
  EXPECT_TRUE(refused.err.contains("neither a share nor a count of GPUs is named")) << refused.err;
}

TEST(EngineRun, CountsTheGpusThatAreFree) {
  const Daemon daemon({}, "base = \"l40s-x2\"\nname = \"two\"\n");
  const Cli& cli = daemon.cli();
  const auto gpus = daemon.snapshot().gpus;
  ASSERT_EQ(gpus.size(), 2u);
  static_cast<void>(cli.shell(
      "mkdir $D/bin; printf '#!/bin/sh\\nprintf \"%%s\\\\n\" \"$@\"\\n' > $D/bin/docker; chmod +x $D/bin/docker"));
  const auto docker = [&](const std::string& words) { return cli.shell("PATH=$D/bin:$PATH; $H docker run " + words); };
  ASSERT_EQ(cli.shell("$H share create a --gpu 0 --mem 1GiB").status, 0);
  Said said = docker("--rm --gpus 1 image");
  EXPECT_EQ(said.out, "run\n--rm\n--gpus\n\"device=" + gpus[1].uuid + "\"\nimage\n") << said.err;
  said = docker("--gpus=2 image");
  EXPECT_EQ(said.status, 125);
  EXPECT_TRUE(said.err.contains("--gpus 2: 1 of 2 GPUs are free: GPU 0 is used by the share a")) << said.err;
}

}  // namespace
}  // namespace headgate::e2e
