#include "api/readiness.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

using namespace std::chrono_literals;

Health well() { return {.gpus = 2}; }

std::string reason(const Health& health) {
  const auto ready = readiness(health);
  return ready ? "" : ready.error().message;
}

TEST(Readiness, ADaemonThatCanDoItsWorkIsReady) {
  EXPECT_TRUE(readiness(well()));
  Health late = well();
  late.driver_silence = 9s, late.arbiter_silence = 4s, late.silent_gpus = 1;
  EXPECT_TRUE(readiness(late)) << "one GPU of two, and a slow look";
}

TEST(Readiness, ADriverThatDoesNotAnswerIsNamedWithItsSilence) {
  Health health = well();
  health.driver_silence = 11s, health.driver_answered = false, health.gpus = 0;
  EXPECT_EQ(reason(health), "the driver has not answered for 11 s");
  EXPECT_EQ(readiness(health).error().code, ErrorCode::unreachable);
  health.driver_silence = 1s;
  EXPECT_TRUE(readiness(health)) << "once is not for long";
}

TEST(Readiness, ADriverWithoutAnAnsweringGpuIsNotReady) {
  Health health = well();
  health.gpus = 0;
  EXPECT_EQ(reason(health), "the driver counts no GPU");
  health.gpus = health.silent_gpus = 8;
  EXPECT_EQ(reason(health), "none of the driver's GPUs answers (8)");
}

TEST(Readiness, UnreachableSharesAreNamedUpToALimit) {
  Health health = well();
  health.shut = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(reason(health), "programs cannot enter a, b, c, d, e and 2 more: the socket is gone");
  health.tells_names = false;
  EXPECT_EQ(reason(health), "programs cannot enter 7 shares: the socket is gone");
  health.shut = {"a"};
  EXPECT_EQ(reason(health), "programs cannot enter 1 share: the socket is gone");
}

TEST(Readiness, ARuntimeDirectoryWithoutRoomIsNamed) {
  Health health = well();
  health.room = Error{ErrorCode::no_capacity, "the file system of /run/headgate is full", "du -a"};
  EXPECT_EQ(reason(health), "the file system of /run/headgate is full");
}

TEST(Readiness, AStalledArbiterIsNamed) {
  Health health = well();
  health.arbiter_silence = 6s;
  EXPECT_EQ(reason(health), "the arbiter has not looked for 6 s");
}

TEST(Readiness, AllReasonsAreReportedAtOnceWithRepairs) {
  Health health = well();
  health.driver_silence = 20s;
  health.store = Error{ErrorCode::denied, "the database x: attempt to write a readonly database", "make it writable"};
  health.shut = {"alice"};
  EXPECT_EQ(reason(health),
            "the driver has not answered for 20 s; programs cannot enter alice: the socket is gone; the database x: "
            "attempt to write a readonly database");
  const Error told = readiness(health).error();
  EXPECT_EQ(told.code, ErrorCode::unreachable);
  EXPECT_TRUE(told.hint.ends_with("; make it writable")) << told.hint;
}

}  // namespace
}  // namespace headgate::api
