#include "http/message.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace headgate::http {
namespace {

TEST(HostName, MatchesAddressesLocalhostAndTheMachinesNamesOnly) {
  const std::vector<std::string> names = {"lab-3", "gpu.example.org"};
  for (const char* ours : {"127.0.0.1", "127.0.0.1:9471", "10.0.0.7:80", "[::1]", "[::1]:9471", "localhost",
                           "LocalHost:9471", "localhost.", "lab-3", "LAB-3:9471", "gpu.example.org."})
    EXPECT_TRUE(is_own_name(ours, names)) << ours;
  for (const char* foreign : {"", "evil.example", "evil.example:9471", "127.0.0.1.evil.example",
                              "localhost.evil.example", "lab-3.evil.example", "lab-3:", "lab-3:x", "lab-3:999999",
                              "[::1", "[::1]x", "[evil]", "127.0.0.1:80:80", "lab", "0x7f.1", "..", "lab-3 "})
    EXPECT_FALSE(is_own_name(foreign, names)) << foreign;
  EXPECT_FALSE(is_own_name("", std::vector<std::string>{""}));
}

}  // namespace
}  // namespace headgate::http
