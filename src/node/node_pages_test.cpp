#include "node/node_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "base/unique_fd.hpp"
#include "guest/ledger/node_page.hpp"
#include "guest/ledger/test_crowd.hpp"
#include "guest/ledger/wake.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

// Even a tenant that runs as the daemon's own user, as root in a container does.
TEST(NodePages, AReaderCanNeitherWriteNorShortenThem) {
  NodePages pages;
  const int fd = pages.descriptor("alice");
  ASSERT_GE(fd, 0);
  EXPECT_EQ(pages.descriptor("alice"), fd);
  EXPECT_NE(pages.descriptor("bob"), fd) << "each share has its own page";
  constexpr std::size_t kBytes = sizeof(ledger::NodePage);
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  const UniqueFd again(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  for (const int theirs : {fd, again ? again.get() : fd}) {
    EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0), MAP_FAILED);
    EXPECT_EQ(::pwrite(theirs, "x", 1, 0), -1);
    EXPECT_EQ(::ftruncate(theirs, 0), -1);
    EXPECT_EQ(::fallocate(theirs, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  }
  void* const read = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(read, MAP_FAILED);
  const auto& page = *static_cast<const ledger::NodePage*>(read);
  EXPECT_NE(::mprotect(read, kBytes, PROT_READ | PROT_WRITE), 0);
  // What the daemon writes is seen nevertheless.
  EXPECT_EQ(page.header.magic, ledger::kNodeMagic);
  EXPECT_EQ(page.unattributed_bytes[0].load(), ledger::kNotTold);
  pages.begin();
  EXPECT_EQ(page.begun.load(), 1u);
  EXPECT_EQ(page.done.load(), 0u);
  ::munmap(read, kBytes);
}

TEST(NodePages, ThreadsThatWaitForAReadingDoNotBlockTheLoop) {
  const tenancy::Scratch scratch;
  tenancy::Adoption adoption;
  tenancy::Shares shares = tenancy::Shares::open({scratch.path() + "/run", {{tenancy::kGpu0, 80 * tenancy::kGiB}}, {}},
                                                 tenancy::Store::open(scratch.path() + "/state.db").value(), adoption)
                               .value();
  ASSERT_TRUE(shares.create(tenancy::share_of("alice", 1000, 8 * tenancy::kGiB)));
  boost::asio::io_context context;
  const tenancy::Processes tenants(context.get_executor(), shares, "/proc", {});
  NodePages pages;
  void* const read = ::mmap(nullptr, sizeof(ledger::NodePage), PROT_READ, MAP_SHARED, pages.descriptor("alice"), 0);
  ASSERT_NE(read, MAP_FAILED);
  const auto& page = *static_cast<const ledger::NodePage*>(read);
  EXPECT_EQ(ledger::still_waiting(ledger::kMaxWoken + 36, page.done, [&] { pages.tell({}, shares, tenants); }), 36);
  ::munmap(read, sizeof(ledger::NodePage));
}

}  // namespace
}  // namespace headgate::node
