#include "cli/run/engine_run.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headgate::cli {
namespace {

snapshot::Share share_with(const std::string& file, const std::string& problem = {}) {
  snapshot::Share share;
  share.name = "a";
  share.cdi_file = file;
  share.cdi_problem = problem;
  return share;
}

TEST(ContainerLines, AreReadyToBeRun) {
  // A CDI file that exists, but outside the directories that engines search.
  std::string file = (std::filesystem::temp_directory_path() / "headgate-cdi-XXXXXX").string();
  const int fd = ::mkstemp(file.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_EQ(container_lines(share_with(file)),
            "containers in this share:\n"
            "  podman run --device headgate.io/share=a IMAGE\n"
            "  docker run --device headgate.io/share=a IMAGE    # Docker 25 or newer\n"
            "  devices: [\"headgate.io/share=a\"]    # a service of Compose\n"
            "engines look in /etc/cdi and /var/run/cdi unless they are told of " +
                std::filesystem::path(file).parent_path().string() + "\n");
  std::filesystem::remove(file);
}

// Engines give a program of `exec` none of the CDI file's variables.
TEST(ContainerLines, NameThePipeForExecUnderMps) {
  std::string file = (std::filesystem::temp_directory_path() / "headgate-cdi-XXXXXX").string();
  const int fd = ::mkstemp(file.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::ofstream(file) << R"({"devices":[{"containerEdits":{"env":["A=b","CUDA_MPS_PIPE_DIRECTORY=/run/x/pipe"]}}]})";
  snapshot::Share share = share_with(file);
  constexpr const char* kLine = "\n  podman exec --env CUDA_MPS_PIPE_DIRECTORY=/run/x/pipe CONTAINER PROGRAM ";
  EXPECT_EQ(container_lines(share).find(kLine), std::string::npos) << "no share under MPS";
  share.isolation = "mps";
  EXPECT_NE(container_lines(share).find(kLine), std::string::npos) << container_lines(share);
  for (const char* damaged : {"", "{}", R"({"devices":[]})", R"({"devices":[{"containerEdits":{"env":[1]}}]})"}) {
    std::ofstream(file) << damaged;
    EXPECT_EQ(container_lines(share).find("exec"), std::string::npos) << damaged;
  }
  std::filesystem::remove(file);
}

TEST(ContainerLines, ReportWhyThereIsNoFile) {
  EXPECT_EQ(container_lines(share_with("/var/run/cdi/x.json", "the disk is full")),
            "no container can be given this share by --device: the disk is full\n"
            "  what helps: headgate doctor says more; headgated tries again each second; or mounts instead: headgate "
            "limiter install DIR\n");
  EXPECT_EQ(container_lines(share_with("", "cdi.dir is none")),
            "no container can be given this share by --device: cdi.dir is none\n"
            "  what helps: cdi.dir = \"/var/run/cdi\" in headgated's configuration, and a restart of it; or mounts "
            "instead: headgate limiter install DIR\n");
  EXPECT_EQ(cdi_trouble(share_with("/nowhere/x.json")),
            "there is no /nowhere/x.json; headgated writes it again within a second");
  if (::geteuid() != 0) {
    EXPECT_EQ(cdi_trouble(share_with("/etc/shadow")), "/etc/shadow cannot be read by you: Permission denied");
  }
  EXPECT_EQ(container_lines(share_with("")), "") << "of a run without a daemon";
}

}  // namespace
}  // namespace headgate::cli
