#include "base/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace headgate {
namespace {

TEST(Json, KeepsTheOrderOfKeys) { EXPECT_EQ(parse_json(R"({"b": 1, "a": [2]})").dump(), R"({"b":1,"a":[2]})"); }

TEST(Json, DiscardsWhatIsNone) {
  for (const char* text : {"", "{", "{} x", "{'a': 1}"}) EXPECT_TRUE(parse_json(text).is_discarded()) << text;
}

}  // namespace
}  // namespace headgate
