
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/run/launch.hpp"

namespace headgate::cli {
namespace {

class Directory {
 public:
  Directory() { [[maybe_unused]] const char* made = ::mkdtemp(path_.data()); }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text, mode_t mode) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "headgate-program-XXXXXX").string();
};

// Builds the header of an ELF program without an interpreter.
std::string elf(char elf_class, char machine) {
  std::string bytes(
      "\x7f"
      "ELF",
      4);
  bytes += elf_class;
  bytes += std::string("\x01\x01", 2) + std::string(9, '\0');
  bytes += std::string("\x02\x00", 2) + machine + std::string(1, '\0');
  bytes.resize(64, '\0');
  return bytes;
}

TEST(Program, AnOrdinaryProgramIsHeld) {
  const auto program = find_program("/bin/sh");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->unheld, std::nullopt) << *program->unheld;
  EXPECT_TRUE(find_program("sh"));
}

TEST(Program, AMissingOrNonExecutableFileHasTheShellsStatus) {
  const Directory directory;
  EXPECT_EQ(find_program("no-such-command-here").error().status, 127);
  EXPECT_EQ(find_program("/no/such/file").error().status, 127);
  EXPECT_EQ(find_program("/no/such/file").error().error.message,
            "cannot run '/no/such/file': No such file or directory");
  EXPECT_EQ(find_program("").error().status, 127);
  EXPECT_EQ(find_program(directory.path()).error().status, 126);
  EXPECT_EQ(find_program(directory.file("data", "x", 0644)).error().status, 126);
}

TEST(Program, AProgramWithoutTheLimiterIsNamedNotHeld) {
  const Directory directory;
  const auto why = [&](const std::string& path) {
    return find_program(path).value_or(Program{}).unheld.value_or("held");
  };
  const std::string still = directory.file("static", elf(2, 62), 0755);
  EXPECT_EQ(why(still), still + " is statically linked: no library can be preloaded into it");
  const std::string old = directory.file("i386", elf(1, 3), 0755);
  EXPECT_EQ(why(old), old + " is built for another architecture than the limiter");
  const std::string arm = directory.file("arm", elf(2, static_cast<char>(183)), 0755);
  EXPECT_EQ(why(arm), arm + " is built for another architecture than the limiter");
  const std::string script = directory.file("script", "#! " + still + " -x\n", 0755);
  EXPECT_EQ(why(script),
            script + " is a script: " + still + " is statically linked: no library can be preloaded into it");
  EXPECT_EQ(why(directory.file("good", "#!/bin/sh\n", 0755)), "held");
  EXPECT_EQ(why(directory.file("plain", "echo hello\n", 0755)), "held");
  const std::string loop = directory.path() + "/loop";
  directory.file("loop", "#!" + loop + "\n", 0755);
  EXPECT_NE(why(loop).find("nested too deeply"), std::string::npos);
}

TEST(Program, ASetuidProgramIsNamedNotHeld) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const Directory directory;
  std::ifstream shell("/bin/sh", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(shell)), {});
  const std::string path = directory.file("setuid", bytes, 0755);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(find_program(path)->unheld, path + " is setuid: the loader ignores preloaded libraries in it");
}

Result<int> shell(const std::string& script) {
  return run_and_wait({"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}});
}

TEST(Launch, TheChildsStatusIsPassedOn) {
  EXPECT_EQ(shell("exit 0"), 0);
  EXPECT_EQ(shell("exit 7"), 7);
  EXPECT_EQ(shell("kill -TERM $$"), 128 + 15);
  EXPECT_EQ(shell("kill -KILL $$"), 128 + 9);
}

TEST(Launch, ASignalForUsReachesTheChild) {
  // The child asks its parent (us) to send it the signal, and ends only on receiving it.
  EXPECT_EQ(shell("trap 'exit 42' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done"), 42);
  EXPECT_EQ(shell("trap 'exit 43' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"), 43);
}

TEST(Launch, AFailedExecExitsLikeAShell) {
  const Directory directory;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_and_wait({directory.path() + "/none", {"none"}, {}}), 127);
  EXPECT_EQ(run_and_wait({directory.file("broken", elf(2, 62), 0755), {"broken"}, {}}), 126);
  EXPECT_EQ(testing::internal::GetCapturedStderr().substr(0, 22), "headgate: cannot run '");
  EXPECT_EQ(run_and_wait({directory.file("plain", "exit 5\n", 0755), {"plain"}, {}}), 5);
}

}  // namespace
}  // namespace headgate::cli
