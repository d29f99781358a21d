#include "base/whole_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"

namespace headgate {
namespace {

// A pipe holds 64 KiB, so one write is not enough.
TEST(WriteAll, PartialWritesAreContinued) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  std::string text(1 << 20, 'x'), got;
  text.back() = 'y';
  int error = -1;
  std::thread writer([&] {
    error = write_all(out.get(), text);
    out.reset();
  });
  char part[4096];
  for (ssize_t size; (size = ::read(in.get(), part, sizeof part)) > 0;)
    got.append(part, static_cast<std::size_t>(size));
  writer.join();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(got, text);
}

TEST(WriteAll, AFullDiskIsReportedByErrno) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  EXPECT_EQ(write_all(full.get(), "text"), ENOSPC);
  EXPECT_EQ(write_all(-1, "text"), EBADF);
  EXPECT_EQ(write_all(-1, ""), 0);
}

}  // namespace
}  // namespace headgate
