#include "http/loop.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "http/test_server.hpp"

namespace headgate::http {
namespace {

TEST(Timer, RunsOnceAndOnlyTheLastOneStarted) {
  Loop loop;
  int first = 0;
  int second = 0;
  Timer timer(loop);
  timer.start(1ms, [&] { ++first; });
  timer.start(2ms, [&] {
    ++second;
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(Timer, DoesNothingAfterItsDestruction) {
  Loop loop;
  {
    Timer timer(loop);
    timer.start(0ns, [] { ADD_FAILURE() << "ran after its end"; });
  }
  loop.run_for(5ms);
}

TEST(Watch, ReportsEachWriteAndLeavesTheDescriptorOpen) {
  Loop loop;
  const UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int rings = 0;
  std::unique_ptr<Watch> watch;
  const auto ring = [&] {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(doorbell.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  };
  watch = std::make_unique<Watch>(loop, doorbell.get(), [&] {
    ++rings;
    if (rings == 2) return;  // left unread, so it fires again
    std::uint64_t value = 0;
    EXPECT_EQ(::read(doorbell.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
    if (rings == 1) {
      ring();
    } else {
      watch.reset();
      ring();
      loop.post([&] { loop.stop(); });
    }
  });
  ring();
  loop.run();
  EXPECT_EQ(rings, 3);
  EXPECT_GE(::fcntl(doorbell.get(), F_GETFD), 0) << "the watch closed what was not its own";
}

TEST(Watch, ClosesNothingAtItsDestruction) {
  const UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  {
    Loop loop;
    const Watch watch(loop, doorbell.get(), [] {});
  }
  EXPECT_GE(::fcntl(doorbell.get(), F_GETFD), 0);
}

}  // namespace
}  // namespace headgate::http
