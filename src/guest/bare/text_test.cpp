#include "guest/bare/text.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <cstdio>
#include <string>

namespace {

using headgate::bare::Text;

std::string formatted(const char* format, ...) {
  char buffer[256];
  Text text(buffer);
  va_list arguments;
  va_start(arguments, format);
  text.add_format(format, arguments);
  va_end(arguments);
  return std::string(text.view());
}

template <typename... T>
std::string by_libc(const char* format, T... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

TEST(Text, MessagesReadAsLibcWouldWriteThem) {
  const char* format = "%s=%d %u %x %ld %lu %lx %c 100%%";
  EXPECT_EQ(formatted(format, "used", -7, 8u, 255u, LONG_MIN, ULONG_MAX, 0xdeadbeeful, 'z'),
            by_libc(format, "used", -7, 8u, 255u, LONG_MIN, ULONG_MAX, 0xdeadbeeful, 'z'));
  EXPECT_EQ(formatted("%d %d", INT_MIN, 0), by_libc("%d %d", INT_MIN, 0));
}

TEST(Text, AMissingStringDoesNotCrashTheProgram) {
  EXPECT_EQ(formatted("%s.", static_cast<const char*>(nullptr)), "(null).");
}

TEST(Text, AnUnknownConversionIsShownNotSwallowed) { EXPECT_EQ(formatted("a%qb%"), "a%qb%"); }

TEST(Text, ALongMessageIsCutAndStillTerminated) {
  char buffer[8];
  Text text(buffer);
  text.add("0123456789");
  EXPECT_EQ(text.view(), "0123456");
  EXPECT_TRUE(text.full());
  EXPECT_EQ(buffer[7], 0);
}

TEST(Text, AnEmptyBufferIsNeverWritten) {
  Text text(std::span<char>{});
  text.add("abc");
  EXPECT_EQ(text.size(), 0u);
}

}  // namespace
