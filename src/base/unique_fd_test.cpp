#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace headgate {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFd, ADescriptorIsClosedWithItsOwner) {
  const int fd = open_null();
  ASSERT_GE(fd, 0);
  {
    UniqueFd owner(fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, AMovedFromOwnerClosesNothing) {
  UniqueFd first(open_null());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  first.reset();
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(second.get(), fd);
}

TEST(UniqueFd, AssignmentClosesTheOldDescriptorAndKeepsTheNew) {
  UniqueFd kept(open_null());
  const int old = kept.get();
  UniqueFd next(open_null());
  const int fresh = next.get();
  kept = std::move(next);
  EXPECT_FALSE(is_open(old));
  EXPECT_TRUE(is_open(fresh));
}

TEST(UniqueFd, ReleaseReturnsTheOpenDescriptor) {
  int fd = -1;
  {
    UniqueFd owner(open_null());
    fd = owner.release();
    EXPECT_FALSE(owner);
  }
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

}  // namespace
}  // namespace headgate
