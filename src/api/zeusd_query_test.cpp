#include "api/zeusd_wire.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

using Kind = ZeusdParameter::Kind;
constexpr ZeusdParameter kParameters[] = {{"gpu_ids", Kind::ids, true},
                                          {"limit", Kind::number, true},
                                          {"block", Kind::flag, true},
                                          {"more", Kind::flag, false}};

std::string refusal_of(const http::Fields& query) {
  const auto parsed = parse_zeusd_query(query, kParameters);
  return parsed ? "" : parsed.error().message;
}

http::Fields with_ids(const std::string& ids) { return {{"gpu_ids", ids}, {"limit", "1"}, {"block", "true"}}; }

TEST(ZeusdQuery, ValuesAreTyped) {
  const auto query = parse_zeusd_query({{"block", "false"}, {"limit", "4294967295"}, {"gpu_ids", "3,1"}}, kParameters);
  ASSERT_TRUE(query) << query.error().message;
  EXPECT_EQ(query->list("gpu_ids"), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(query->number("limit"), 4294967295u);
  EXPECT_FALSE(query->flag("block"));
  EXPECT_FALSE(query->flag("more"));
  EXPECT_FALSE(query->list("cpu_ids"));
}

TEST(ZeusdQuery, IdsAreTrimmedSortedAndUnique) {
  for (const char* ids : {"0,2", "2,0", " 2 , 0 ", "0,2,2,0"})
    EXPECT_EQ(parse_zeusd_query(with_ids(ids), kParameters)->list("gpu_ids"), (std::vector<std::uint32_t>{0, 2}))
        << ids;
}

TEST(ZeusdQuery, InvalidIdsAreRefused) {
  for (const char* ids : {"", " ", ",", "0,", ",0", "0,,1", "a", "0,x", "-1", "1.5", "4294967296", "0 1"})
    EXPECT_TRUE(refusal_of(with_ids(ids)).starts_with("invalid gpu_ids")) << ids << ": " << refusal_of(with_ids(ids));
}

TEST(ZeusdQuery, EachMistakeHasZeusdsMessage) {
  EXPECT_EQ(refusal_of({{"gpu_ids", "0"}, {"limit", "1"}}), "missing field `block`");
  EXPECT_EQ(refusal_of({{"gpu_ids", "0"}, {"limit", "1"}, {"block", "true"}, {"x", "1"}}),
            "unknown field `x`, expected `gpu_ids`, `limit`, `block`, `more`");
  EXPECT_EQ(refusal_of({{"block", "true"}, {"block", "true"}}), "duplicate field `block`: give it once");
  for (const char* flag : {"", "True", "1", "yes", "TRUE", " true"})
    EXPECT_TRUE(refusal_of({{"gpu_ids", "0"}, {"limit", "1"}, {"block", flag}}).starts_with("invalid value")) << flag;
  for (const char* number : {"", "-1", "4294967296", "1e3", "0x10", "1 ", "18446744073709551616"})
    EXPECT_TRUE(refusal_of({{"gpu_ids", "0"}, {"limit", number}, {"block", "true"}}).starts_with("invalid value"))
        << number;
}

TEST(ZeusdQuery, TypesAreCheckedBeforeIds) {
  EXPECT_TRUE(refusal_of({{"gpu_ids", "x"}, {"limit", "y"}, {"block", "true"}}).starts_with("invalid value `y`"));
  EXPECT_EQ(refusal_of({{"gpu_ids", "x"}, {"limit", "1"}}), "missing field `block`");
}

}  // namespace
}  // namespace headgate::api
