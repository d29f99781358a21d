#include "channel/wire.hpp"

#include <gtest/gtest.h>

#include "channel/test_agent.hpp"

namespace headgate::channel {
namespace {

using namespace std::chrono_literals;

TEST(Assignment, SurvivesTheWireUnchanged) {
  Task task{.id = 7, .client = "sched", .kind = "admit", .payload = R"({"share":"a","bytes":[1,2]})", .attempt = 2};
  task.expires = 30s;
  task.lease_ends = 10s;
  const Assignment expected{
      .id = 7, .attempt = 2, .kind = "admit", .payload = R"({"bytes":[1,2],"share":"a"})", .lease = 9s, .expires = 29s};
  const auto both = parse_assignments(assignments_text({assignment_text(task, 1s), assignment_text(task, 1s)}));
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(*both, (std::vector{expected, expected}));
  EXPECT_TRUE(parse_assignments(assignments_text({}))->empty());
}

TEST(Assignment, IsRefusedWithWhatItLacks) {
  const std::pair<const char*, const char*> table[] = {
      {"[]", "the channel sent a task without fields"},
      {R"({"attempt":1})", "the channel sent a task without an id"},
      {R"({"id":0,"attempt":1})", "the channel sent a task without an id"},
      {R"({"id":-1,"attempt":1})", "the channel sent a task without an id"},
      {R"({"id":1,"attempt":4294967296})", "the channel sent a task without the number of its attempt"},
      {R"({"id":1,"attempt":1,"lease_ms":1e300,"expires_ms":1})", "the channel sent a task without its times"},
      {R"({"id":1,"attempt":1,"lease_ms":1,"expires_ms":9223372036854775807})",
       "the channel sent a task without its times"},
      {R"({"id":1,"attempt":1,"lease_ms":1,"expires_ms":1,"kind":7})", "the channel sent a task without a kind"},
      {R"({"id":1,"attempt":1,"lease_ms":1,"expires_ms":1,"kind":"k"})", "the channel sent a task without a payload"},
  };
  for (const auto& [text, message] : table)
    EXPECT_EQ(parse_assignments(assignments_text({text})).error().message, message) << text;
  for (const char* text : {"", "[]", "{}", R"({"tasks":{}})"}) {
    EXPECT_EQ(parse_assignments(text).error().message, "the channel's answer is no list of tasks") << text;
  }
}

TEST(IsJson, RefusesEndlessNesting) {
  EXPECT_TRUE(is_json(R"({"a":[1,"x",null]})"));
  EXPECT_TRUE(is_json(std::string(32, '[') + std::string(32, ']')));
  EXPECT_FALSE(is_json(std::string(34, '[') + std::string(34, ']')));
  EXPECT_FALSE(is_json(std::string(500'000, '[') + std::string(500'000, ']')));
  for (const char* text : {"", " ", "{", "nul", "{} {}", "\xff"}) EXPECT_FALSE(is_json(text)) << text;
}

TEST(Leave, HasExactlyWhatTheAgentSent) {
  EXPECT_EQ(parse_leave(R"({"allow":true})"), (Leave{true, ""}));
  EXPECT_EQ(parse_leave(R"({"allow":false,"reason":"full"})"), (Leave{false, "full"}));
  for (const char* text : {"", "true", "[]", "{}", R"({"allow":"true"})", R"({"allow":1})", R"({"Allow":true})"}) {
    EXPECT_FALSE(parse_leave(text)) << text;
  }
}

TEST(Wait, IsInSecondsOrMillisecondsWithinTheLimits) {
  EXPECT_EQ(parse_wait("30s", 50s), 30s);
  EXPECT_EQ(parse_wait("30", 50s), 30s);
  EXPECT_EQ(parse_wait("500ms", 50s), 500ms);
  EXPECT_EQ(parse_wait("4294967295s", 50s), 50s);
  for (const std::string text : {"", "s", "-1", "1.5s", "1m", "1 s", "4294967296"}) {
    EXPECT_EQ(parse_wait(text, 50s).error(),
              (Error{ErrorCode::usage, "'" + text + "' is no time to wait", "accepted: 30s, 500ms, 30"}));
  }
}

}  // namespace
}  // namespace headgate::channel
