// Attacks by others: non-files and files of absurd size in place of pages, another user's directory, and processes of
// the same user that overwrite mapped pages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {
namespace {

namespace fs = std::filesystem;

ShareGrant grant() {
  ShareGrant out;
  std::strcpy(out.name, "a");
  out.device_count = 1;
  std::strcpy(out.devices[0].uuid, "GPU-1");
  out.devices[0].memory_limit_bytes = 1000;
  return out;
}

class UntrustedPaths : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/headgate-strangers-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    base_ = path;
  }
  void TearDown() override { fs::remove_all(base_); }

  PageError join() const {
    const ShareGrant mine = grant();
    SharePages pages;
    SlotRef seat;
    const PageFault bad = enter_share(base_.c_str(), mine.name, &mine, pages, seat);
    close_pages(pages);
    return bad.error;
  }
  void make() const {
    SharePages pages;
    ASSERT_FALSE(create_share(base_.c_str(), grant(), Access::owner, pages));
    close_pages(pages);
  }

  std::string base_;
};

void make_fifo(const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }
void make_directory(const std::string& path) { ASSERT_EQ(::mkdir(path.c_str(), 0700), 0); }
void make_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
}

// A pipe is the worst: a careless open() would block the program for ever.
TEST_F(UntrustedPaths, OnlyFilesArePagesAndOnlyDirectoriesShares) {
  for (auto* const put : {&make_fifo, &make_socket, &make_directory}) {
    for (const char* page : {"policy", "usage"}) {
      make();
      fs::remove(base_ + "/shares/a/" + page);
      put(base_ + "/shares/a/" + page);
      EXPECT_EQ(join(), PageError::not_a_file) << page;
      fs::remove_all(base_ + "/shares");
    }
    if (put == &make_directory) continue;
    make();
    fs::remove_all(base_ + "/shares/a");
    put(base_ + "/shares/a");
    EXPECT_EQ(join(), PageError::not_a_file);
    fs::remove_all(base_ + "/shares");
    put(base_ + "/shares");
    EXPECT_EQ(join(), PageError::not_a_file);
    fs::remove(base_ + "/shares");
  }
}

TEST_F(UntrustedPaths, AHugePageCostsNoMemoryAndIsRefused) {
  make();
  for (const char* page : {"policy", "usage"}) {
    ASSERT_EQ(::truncate((base_ + "/shares/a/" + page).c_str(), off_t{1} << 42), 0) << "sparse";
    EXPECT_EQ(join(), PageError::wrong_size);
    ASSERT_EQ(
        ::truncate((base_ + "/shares/a/" + page).c_str(), page[0] == 'p' ? sizeof(PolicyPage) : sizeof(UsagePage)), 0);
  }
  EXPECT_EQ(join(), PageError::none);
}

TEST_F(UntrustedPaths, AnotherUsersDirectoryIsNotEntered) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  for (const std::string part : {"", "/shares", "/shares/a", "/shares/a/policy", "/shares/a/usage"}) {
    make();
    ASSERT_EQ(::chown((base_ + part).c_str(), 12345, 12345), 0);
    EXPECT_EQ(join(), PageError::foreign_owner) << part;
    ASSERT_EQ(::chown(base_.c_str(), 0, 0), 0);
    fs::remove_all(base_ + "/shares");
  }
}

TEST_F(UntrustedPaths, ARelativeDirectoryIsRefused) {
  const ShareGrant mine = grant();
  SharePages pages;
  EXPECT_EQ(create_share("run", mine, Access::tenant, pages).error, PageError::relative_path);
  EXPECT_EQ(create_share("", mine, Access::tenant, pages).error, PageError::relative_path);
  EXPECT_FALSE(fs::exists("run"));
}

TEST_F(UntrustedPaths, LaterCorruptionStaysInRangeForReaders) {
  make();
  SharePages pages;
  ASSERT_FALSE(open_share(base_.c_str(), "a", Access::owner, pages));
  std::memset(static_cast<void*>(pages.writable_policy), 0xff, sizeof(PolicyPage));
  const ShareGrant copy = grant_of(*pages.policy);
  EXPECT_EQ(copy.device_count, kMaxDevices);
  EXPECT_EQ(std::strlen(copy.name), sizeof copy.name - 1);
  for (const DeviceGrant& device : copy.devices) EXPECT_EQ(std::strlen(device.uuid), sizeof device.uuid - 1);
  close_pages(pages);
}

}  // namespace
}  // namespace headgate::ledger
