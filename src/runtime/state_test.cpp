#include "runtime/hook.hpp"

#include <gtest/gtest.h>

namespace headgate::runtime {
namespace {

TEST(ContainerState, IsReadFromStdin) {
  const auto state =
      read_state(R"({"ociVersion":"1.0.2","id":"c","status":"creating","pid":4711,"bundle":"/b 'c","annotations":{}})");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->id, "c");
  EXPECT_EQ(state->bundle, "/b 'c");
  EXPECT_EQ(state->pid, 4711);
}

TEST(ContainerState, IsRefusedWithOneSentence) {
  const auto trouble = [](std::string_view json) {
    const auto state = read_state(json);
    return state ? "" : state.error().message;
  };
  EXPECT_EQ(trouble(""), "the container's state is no JSON");
  EXPECT_EQ(trouble("[]"), "the container's state is no object");
  EXPECT_EQ(trouble(R"({"pid":7,"bundle":"/b"})"), "the container's state has no text 'id'");
  EXPECT_EQ(trouble(R"({"id":"c","pid":7,"bundle":"b"})"), "the container's state names no bundle");
  for (const char* pid : {"0", "1", "-1", "4294967297", "\"7\"", "7.5", "null"})
    EXPECT_EQ(trouble(R"({"id":"c","bundle":"/b","pid":)" + std::string(pid) + "}"),
              "the container's state has no pid of a process")
        << pid;
  EXPECT_EQ(trouble(R"({"id":"c","bundle":"/b"})"), "the container's state has no pid of a process");
}

}  // namespace
}  // namespace headgate::runtime
