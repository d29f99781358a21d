#include "daemon/places.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace headgate::daemon {
namespace {

// A tool that a killed headgated was starting holds the lock for a moment: its descriptors are closed at its exec.
TEST(PlacesHeld, WaitForTheToolOfAKilledDaemon) {
  std::string folder = std::filesystem::temp_directory_path() / "hg-places-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t tool = ::fork();
  if (tool == 0) {
    const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    if (::flock(lock, LOCK_EX) != 0 || ::write(ready[1], "r", 1) != 1) ::_exit(1);
    ::usleep(100'000);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  Places places;
  places.runtime_dir = folder;
  places.state_file = folder + "/state.db";
  const auto held = hold(places);
  EXPECT_TRUE(held) << held.error().message;
  const auto other = hold(places);
  ASSERT_FALSE(other) << "that one stays";
  EXPECT_EQ(other.error().message, "another headgated works in " + folder);
  ::waitpid(tool, nullptr, 0);
  for (const int end : ready) ::close(end);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headgate::daemon
