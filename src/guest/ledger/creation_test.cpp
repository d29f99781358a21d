// Failed or partial creation: makers and removers killed before every step, full and read-only file systems, pages
// removed by hand. Built from the ledger's own sources with step() enabled.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "guest/ledger/directory.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {
namespace {

namespace fs = std::filesystem;

long steps_taken = -1;  // -1: not armed
long fatal_step = -1;
int told = -1;  // write end of a pipe: the victim reports the step at which it died

}  // namespace

void step(const char* name) {
  if (steps_taken < 0 || steps_taken++ != fatal_step) return;
  [[maybe_unused]] const ssize_t written = ::write(told, name, std::strlen(name));
  ::kill(::getpid(), SIGKILL);
}

namespace {

ShareGrant grant(const char* name = "research") {
  ShareGrant out;
  std::strcpy(out.name, name);
  out.device_count = 1;
  std::strcpy(out.devices[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
  out.devices[0].memory_limit_bytes = 8ull << 30;
  return out;
}

std::string words(const PageFault& fault, const std::string& base) {
  char text[512];
  explain(fault, text, sizeof text, base.c_str());
  return text;
}

class Creation : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/headgate-creation-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    root_ = path;
    base_ = root_ + "/run";
  }
  void TearDown() override { fs::remove_all(root_); }

  // Enters and leaves as a program does, as the last one.
  std::string come_and_go() const {
    const ShareGrant mine = grant();
    SharePages pages;
    SlotRef seat;
    if (const PageFault bad = enter_share(base_.c_str(), mine.name, &mine, pages, seat)) return words(bad, base_);
    release(*pages.usage, seat);
    close_pages(pages);
    bool removed = false;
    if (const PageFault bad = remove_if_empty(base_.c_str(), mine.name, removed)) return words(bad, base_);
    return removed ? "" : "not removed";
  }

  // Runs `life` in a child killed before its step `fatal`; returns the step's name, or "" if it ended before that.
  std::string killed_before(long fatal, const std::function<void()>& life) const {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      told = ends[1];
      steps_taken = 0;
      fatal_step = fatal;
      life();
      ::_exit(0);
    }
    ::close(ends[1]);
    char name[64] = {};
    [[maybe_unused]] const ssize_t got = ::read(ends[0], name, sizeof name - 1);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL && name[0] != '\0' : status == 0) << status;
    return name;
  }

  // Makes what was left behind two minutes old.
  void age() const {
    for (const auto& left : fs::directory_iterator(base_ + "/shares")) {
      const timespec old[2] = {{::time(nullptr) - 120, 0}, {::time(nullptr) - 120, 0}};
      ::utimensat(AT_FDCWD, left.path().c_str(), old, AT_SYMLINK_NOFOLLOW);
    }
  }
  void expect_nothing_left() const {
    for (const auto& left : fs::directory_iterator(base_ + "/shares")) EXPECT_EQ(left.path().filename(), ".lock");
  }

  // Runs `what` as root in a child with private mounts, to mount at base_. Returns 77 if that is not possible.
  static int with_mounts(const std::function<int()>& what) {
    const pid_t child = ::fork();
    if (child == 0) {
      const uid_t uid = ::getuid();
      const gid_t gid = ::getgid();
      if (::unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) ::_exit(77);
      if (uid != 0) {
        std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
      }
      if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
      ::_exit(what());
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string root_, base_;
};

TEST_F(Creation, AKilledMakerOrRemoverDoesNotBlockTheNext) {
  std::map<std::string, int> histogram;
  for (long fatal = 0;; ++fatal) {
    const std::string name = killed_before(fatal, [this] { come_and_go(); });
    if (name.empty()) break;
    ++histogram[name];
    EXPECT_EQ(come_and_go(), "") << "killed before: " << name;
    age();
    EXPECT_EQ(come_and_go(), "") << "killed before: " << name;
    expect_nothing_left();
  }
  for (const auto& [name, count] : histogram) std::printf("  %-20s %4d\n", name.c_str(), count);
  for (const char* step : {"make: directory", "make: mode", "make: space", "make: fill", "make: name", "make: end",
                           "remove: name", "remove: policy", "remove: usage", "remove: directory"})
    EXPECT_GE(histogram[step], 1) << step;
}

TEST_F(Creation, AMakersFilesAreKeptWhileItMayStillWork) {
  EXPECT_FALSE(killed_before(3, [this] { come_and_go(); }).empty());
  const auto half = [this] {
    int count = 0;
    for (const auto& left : fs::directory_iterator(base_ + "/shares"))
      count += left.path().filename().string().starts_with(kBeingMade);
    return count;
  };
  ASSERT_EQ(half(), 1);
  EXPECT_EQ(come_and_go(), "");
  EXPECT_EQ(half(), 1) << "younger than a minute";
  age();
  EXPECT_EQ(come_and_go(), "");
  EXPECT_EQ(half(), 0);
}

// A maker that was stopped for minutes wakes up after a sweep: it must not name the directory that the sweep left.
TEST_F(Creation, ALateMakerCreatesNoHalfShare) {
  EXPECT_EQ(come_and_go(), "");
  const Descriptor shares(::open((base_ + "/shares").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::mkdirat(shares.get(), ".new-asleep", 0700), 0);
  const Descriptor held(::openat(shares.get(), ".new-asleep", O_RDONLY | O_DIRECTORY));
  // An entry that the sweep does not know keeps the directory, like a page made between two of its steps.
  const Descriptor late(::openat(held.get(), "late", O_RDWR | O_CREAT, 0600));
  age();
  sweep_scratch(shares.get());
  EXPECT_NE(::renameat(shares.get(), ".new-asleep", shares.get(), "research"), 0);
  EXPECT_FALSE(fs::exists(base_ + "/shares/research"));
}

TEST_F(Creation, AnIncompleteShareIsReportedAndNotRecreatedInUse) {
  const ShareGrant mine = grant();
  for (const char* which : {"usage", "policy"}) {
    SharePages pages, others;
    SlotRef seat;
    ASSERT_FALSE(enter_share(base_.c_str(), mine.name, &mine, pages, seat));
    fs::remove(base_ + "/shares/research/" + which);
    for (int i = 0; i < 2; ++i) {
      const PageFault bad = enter_share(base_.c_str(), mine.name, &mine, others, seat);
      EXPECT_EQ(words(bad, base_), "the share's page \"" + std::string(which) +
                                       "\" is missing: it was removed; end the share's processes, remove its "
                                       "directory (in \"" +
                                       base_ + "\") and start again");
    }
    EXPECT_EQ(open_share(base_.c_str(), mine.name, Access::owner, others).error, PageError::page_missing);
    close_pages(pages);
    fs::remove_all(base_ + "/shares/research");
    EXPECT_EQ(come_and_go(), "");
  }
}

TEST_F(Creation, AnEmptyDirectoryUnderAShareNameIsNoObstacle) {
  fs::create_directories(base_ + "/shares/research");
  for (const auto& part : {base_, base_ + "/shares", base_ + "/shares/research"})
    fs::permissions(part, fs::perms(0700));
  EXPECT_EQ(come_and_go(), "");
}

TEST_F(Creation, AFullFileSystemCreatesNothingAndIsNamed) {
  fs::create_directory(base_);
  const int status = with_mounts([this] {
    // Room for directories and the small page, but not for the large one.
    if (::mount("none", base_.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0) return 77;
    const ShareGrant mine = grant();
    SharePages pages;
    SlotRef seat;
    const std::string said = words(enter_share(base_.c_str(), mine.name, &mine, pages, seat), base_);
    if (said != "\"usage\" in \"" + base_ +
                    "\" cannot be made: no space left on its file system; free some, or set HEADGATE_RUNTIME_DIR to a "
                    "directory of your own") {
      std::fprintf(stderr, "%s\n", said.c_str());
      return 2;
    }
    for ([[maybe_unused]] const auto& left : fs::directory_iterator(base_ + "/shares")) return 3;
    // With enough room it works at once.
    if (::mount("none", base_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") != 0) return 4;
    return come_and_go().empty() ? 0 : 5;
  });
  if (status == 77) GTEST_SKIP() << "a process cannot have private mounts here";
  EXPECT_EQ(status, 0) << "2: another sentence; 3: something was left; 5: no share although there is room";
}

// Blocks are allocated when a page is made, so a file system that fills up later causes no SIGBUS.
TEST_F(Creation, AFileSystemThatFillsUpLaterKillsNoWriter) {
  fs::create_directory(base_);
  const int status = with_mounts([this] {
    if (::mount("none", base_.c_str(), "tmpfs", 0, "size=4m,mode=700") != 0) return 77;
    const ShareGrant mine = grant();
    SharePages pages;
    SlotRef seat;
    if (enter_share(base_.c_str(), mine.name, &mine, pages, seat)) return 2;
    const Descriptor filler(::open((base_ + "/filler").c_str(), O_WRONLY | O_CREAT, 0600));
    char block[4096] = {};
    while (::write(filler.get(), block, sizeof block) > 0) {
    }
    if (errno != ENOSPC) return 3;
    auto* bytes = reinterpret_cast<volatile char*>(pages.usage);
    for (std::size_t at = 0; at < sizeof(UsagePage); at += 4096) bytes[at] = bytes[at];
    return 0;
  });
  if (status == 77) GTEST_SKIP() << "a process cannot have private mounts here";
  EXPECT_EQ(status, 0) << "135: SIGBUS";
}

TEST_F(Creation, AReadOnlyFileSystemCreatesNothingAndIsNamed) {
  fs::create_directories(base_ + "/shares");
  fs::permissions(base_, fs::perms(0700));
  fs::permissions(base_ + "/shares", fs::perms(0700));
  const int status = with_mounts([this] {
    if (::mount(base_.c_str(), base_.c_str(), nullptr, MS_BIND, nullptr) != 0) return 77;
    if (::mount(nullptr, base_.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) return 77;
    const ShareGrant mine = grant();
    SharePages pages;
    SlotRef seat;
    const std::string said = words(enter_share(base_.c_str(), mine.name, &mine, pages, seat), base_);
    if (said == "\"research\" in \"" + base_ +
                    "\" lies on a read-only file system; set HEADGATE_RUNTIME_DIR to a directory of your own")
      return 0;
    std::fprintf(stderr, "%s\n", said.c_str());
    return 2;
  });
  if (status == 77) GTEST_SKIP() << "a process cannot have private mounts here";
  EXPECT_EQ(status, 0);
}

TEST_F(Creation, ALimitOnFileSizesIsAnErrorAndNotASignal) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string said = come_and_go();
    if (!said.starts_with("\"usage\" in \"" + base_ + "\" needs ")) std::fprintf(stderr, "%s\n", said.c_str());
    ::_exit(said.starts_with("\"usage\" in \"" + base_ + "\" needs ") ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_nothing_left();
}

}  // namespace
}  // namespace headgate::ledger
