#include "node/bypass.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

// A /proc of files that a test wrote.
class Bypass : public ::testing::Test {
 protected:
  Bypass() {
    std::string path = fs::temp_directory_path() / "bypass-XXXXXX";
    proc_ = ::mkdtemp(path.data());
    fs::create_directories(proc_ + "/7/ns");
    fs::create_directories(proc_ + "/self/ns");
    fs::create_directory_symlink("/", proc_ + "/7/root");
  }
  ~Bypass() override { fs::remove_all(proc_); }

  void maps(const std::string& text) const { std::ofstream(proc_ + "/7/maps") << text; }
  void program(const std::string& path) const { fs::create_symlink(path, proc_ + "/7/exe"); }
  void name_space(const std::string& who, const std::string& kind) const {
    std::ofstream(proc_ + "/" + who + "/ns/" + kind) << who;
  }

  std::string proc_;
};

TEST_F(Bypass, AProgramWithoutTheLimiterIsSaidToBeOne) {
  program(fs::read_symlink("/proc/self/exe"));
  maps("1000-2000 r-xp 0 08:01 4  /usr/lib/libc.so.6\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
  maps("1000-2000 r-xp 0 08:01 4  /opt/headgate/libheadgate.so\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "");
  // As data it limits nobody.
  maps("1000-2000 r--p 0 08:01 4  /opt/headgate/libheadgate.so\n1000-2000 r-xp 0 08:01 4  /usr/lib/libc.so.6\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
}

TEST_F(Bypass, NamespacesOfItsOwnAreNamed) {
  for (const char* kind : {"user", "mnt", "pid"}) name_space("7", kind), name_space("self", kind);
  EXPECT_EQ(how_it_goes_around(7, proc_), "it has user and mount and pid namespaces of its own");
  fs::remove(proc_ + "/7/ns/user");
  fs::remove(proc_ + "/7/ns/pid");
  EXPECT_EQ(how_it_goes_around(7, proc_), "it has a mount namespace of its own");
}

TEST_F(Bypass, BrokenAndStrangeFilesSayNothing) {
  EXPECT_EQ(how_it_goes_around(8, proc_), "");
  std::ofstream(proc_ + "/broken") << "\x7f" << "ELF and no more";
  program(proc_ + "/broken");
  maps("not a line\n1000-2000 r-xp 0 08:01 4  " + proc_ + "/broken\n1000-2000 r-xp 0 08:01 4  /gone (deleted)\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
}

TEST_F(Bypass, OnlyAFileOfRootsGivesAProgramATrustedName) {
  program("/bin/sh");
  EXPECT_EQ(trusted_program(7, proc_), "sh");
  EXPECT_EQ(trusted_program(8, proc_), "");
  const std::string own = proc_ + "/Xorg";
  fs::copy_file("/bin/sh", own);
  fs::permissions(own, fs::perms::others_write, fs::perm_options::add);
  fs::remove(proc_ + "/7/exe");
  program(own);
  EXPECT_EQ(trusted_program(7, proc_), "") << "anybody may write it";
}

}  // namespace
}  // namespace headgate::node
