#include "guest/grant/size.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

namespace headgate::grant {
namespace {

constexpr std::uint64_t kGi = 1ull << 30;

struct Good {
  std::string_view text;
  Dialect dialect;
  Memory memory;
};

TEST(Size, ReadsMemoryExactlyInEachForm) {
  const Good table[] = {
      {"8GiB", Dialect::headgate, {.bytes = 8 * kGi}},
      {"8Gi", Dialect::headgate, {.bytes = 8 * kGi}},
      {"8G", Dialect::headgate, {.bytes = 8 * kGi}},
      {"8g", Dialect::headgate, {.bytes = 8 * kGi}},
      {"8 GiB", Dialect::headgate, {.bytes = 8 * kGi}},
      {"8GB", Dialect::headgate, {.bytes = 8'000'000'000}},
      {"800MiB", Dialect::headgate, {.bytes = 800ull << 20}},
      {"64k", Dialect::headgate, {.bytes = 64 << 10}},
      {"512B", Dialect::headgate, {.bytes = 512}},
      {"1.5G", Dialect::headgate, {.bytes = kGi + kGi / 2}},
      {"0.1GiB", Dialect::headgate, {.bytes = 107'374'182}},  // 107374182.4, never rounded up
      {"0.000000001GB", Dialect::headgate, {.bytes = 1}},
      {"1T", Dialect::headgate, {.bytes = 1ull << 40}},
      {"50%", Dialect::headgate, {.ppm = 500'000}},
      {"33.3333%", Dialect::headgate, {.ppm = 333'333}},
      {"100%", Dialect::headgate, {.ppm = kWholePpm}},
      {"17179869183.999999999G", Dialect::headgate, {.bytes = ~0ull - 1}},
      {"3000000000", Dialect::bare_bytes, {.bytes = 3'000'000'000}},
      {"3g", Dialect::bare_bytes, {.bytes = 3 * kGi}},
      {"1000m", Dialect::bare_bytes, {.bytes = 1000ull << 20}},
      {"1.5G", Dialect::bare_bytes, {.bytes = kGi + kGi / 2}},
      {"0x40000000", Dialect::bare_bytes, {.bytes = kGi}},
      {"18446744073709551615", Dialect::bare_bytes, {.bytes = ~0ull}},
  };
  for (const Good& row : table) {
    const auto parsed = parse_memory(row.text, row.dialect);
    EXPECT_EQ(parsed.fault, Fault::none) << row.text;
    EXPECT_EQ(parsed.value, row.memory) << row.text << " gave " << parsed.value.bytes;
  }
}

struct Bad {
  std::string_view text;
  Dialect dialect;
  Fault fault;
};

TEST(Size, RefusesEachBadMemoryWithItsOwnReason) {
  const Bad table[] = {
      {"", Dialect::headgate, Fault::empty},
      {"  ", Dialect::headgate, Fault::empty},
      {"abc", Dialect::headgate, Fault::junk},
      {"-1", Dialect::headgate, Fault::negative},
      {"-1GiB", Dialect::headgate, Fault::negative},
      {"-", Dialect::headgate, Fault::junk},
      {"0", Dialect::headgate, Fault::zero},
      {"0m", Dialect::headgate, Fault::zero},
      {"0.0GiB", Dialect::headgate, Fault::zero},
      {"0%", Dialect::headgate, Fault::zero},
      {"0.5B", Dialect::headgate, Fault::zero},
      {"8000", Dialect::headgate, Fault::bare_number},
      {"1e9GiB", Dialect::headgate, Fault::junk},
      {"1000000000000GiB", Dialect::headgate, Fault::overflow},
      {"17179869184G", Dialect::headgate, Fault::overflow},
      {"99999999999999999999", Dialect::bare_bytes, Fault::overflow},
      {"101%", Dialect::headgate, Fault::out_of_range},
      {"8GiBs", Dialect::headgate, Fault::junk},
      {"8 G iB", Dialect::headgate, Fault::junk},
      {"8..5G", Dialect::headgate, Fault::junk},
      {"8.G", Dialect::headgate, Fault::junk},
      {".5G", Dialect::headgate, Fault::junk},
      {"8,5G", Dialect::headgate, Fault::junk},
      {"+8G", Dialect::headgate, Fault::junk},
      {"0x10", Dialect::headgate, Fault::junk},
      {"inf", Dialect::headgate, Fault::junk},
      {"nan", Dialect::bare_bytes, Fault::junk},
      {"50%", Dialect::bare_bytes, Fault::junk},
      {"0", Dialect::bare_bytes, Fault::zero},
      {"0m", Dialect::bare_bytes, Fault::zero},
      {"0x", Dialect::bare_bytes, Fault::junk},
      {"0x0", Dialect::bare_bytes, Fault::zero},
      {"0x1ffffffffffffffff", Dialect::bare_bytes, Fault::overflow},
      {"3x", Dialect::bare_bytes, Fault::junk},
  };
  for (const Bad& row : table)
    EXPECT_EQ(parse_memory(row.text, row.dialect).fault, row.fault) << '"' << row.text << '"';
}

TEST(Size, ReadsComputeAsAPercentageARatioOrMilliGpus) {
  const std::pair<std::string_view, std::uint32_t> table[] = {
      {"50%", 500'000},    {"0.5", 500'000},     {"500m", 500'000}, {"1", 1'000'000},    {"1.0", 1'000'000},
      {"100%", 1'000'000}, {"1000m", 1'000'000}, {"0.0001%", 1},    {"12.5 %", 125'000}, {"0.05", 50'000},
  };
  for (const auto& [text, ppm] : table) EXPECT_EQ(parse_compute(text).value, ppm) << text;
  EXPECT_EQ(parse_compute("50", Dialect::bare_percent).value, 500'000u);
  EXPECT_EQ(parse_compute("33.5%", Dialect::bare_percent).value, 335'000u);
}

TEST(Size, RefusesEachBadComputeWithItsOwnReason) {
  const Bad table[] = {
      {"", Dialect::headgate, Fault::empty},
      {"0", Dialect::headgate, Fault::zero},
      {"0%", Dialect::headgate, Fault::zero},
      {"0.00001%", Dialect::headgate, Fault::zero},
      {"101%", Dialect::headgate, Fault::out_of_range},
      {"100.0001%", Dialect::headgate, Fault::out_of_range},
      {"1001m", Dialect::headgate, Fault::out_of_range},
      {"1.5", Dialect::headgate, Fault::bare_number},
      {"50", Dialect::headgate, Fault::bare_number},
      {"500", Dialect::headgate, Fault::out_of_range},
      {"-5%", Dialect::headgate, Fault::negative},
      {"abc", Dialect::headgate, Fault::junk},
      {"50%%", Dialect::headgate, Fault::junk},
      {"5e1%", Dialect::headgate, Fault::junk},
      {"99999999999999999999%", Dialect::headgate, Fault::out_of_range},
      {"0", Dialect::bare_percent, Fault::zero},
      {"101", Dialect::bare_percent, Fault::out_of_range},
      {"500m", Dialect::bare_percent, Fault::junk},
      {"-1", Dialect::bare_percent, Fault::negative},
  };
  for (const Bad& row : table)
    EXPECT_EQ(parse_compute(row.text, row.dialect).fault, row.fault) << '"' << row.text << '"';
}

TEST(Size, APartOfACardNeverExceedsThatPart) {
  EXPECT_EQ(Memory{.ppm = 500'000}.on(3), 1u);
  EXPECT_EQ(Memory{.ppm = kWholePpm}.on(~0ull), ~0ull);
  EXPECT_EQ(Memory{.bytes = 7}.on(3), 7u);
}

RC_GTEST_PROP(Size, WholeBytesSurviveEachBinaryUnit, ()) {
  const auto bytes = *rc::gen::inRange<std::uint64_t>(1, 1ull << 53);
  RC_ASSERT(parse_memory(std::to_string(bytes) + "B").value.bytes == bytes);
  RC_ASSERT(parse_memory(std::to_string(bytes), Dialect::bare_bytes).value.bytes == bytes);
  const auto small = bytes >> 43;
  if (small > 0) {
    RC_ASSERT(parse_memory(std::to_string(small) + "GiB").value.bytes == small << 30);
    RC_ASSERT(parse_memory(std::to_string(small) + "k").value.bytes == small << 10);
  }
}

RC_GTEST_PROP(Size, FractionsAreTheExactFloor, ()) {
  const auto thousandths = *rc::gen::inRange<std::uint64_t>(1, 100'000'000);
  const std::string digits = std::to_string(thousandths % 1000);
  const std::string text =
      std::to_string(thousandths / 1000) + "." + std::string(3 - digits.size(), '0') + digits + "GiB";
  const unsigned __int128 exact = static_cast<unsigned __int128>(thousandths) * kGi / 1000;
  RC_ASSERT(parse_memory(text).value.bytes == static_cast<std::uint64_t>(exact));
}

RC_GTEST_PROP(Size, NoTextGivesMoreThanAGpuOrNothing, (const std::string& text)) {
  for (const auto dialect : {Dialect::headgate, Dialect::bare_percent, Dialect::bare_bytes}) {
    const auto compute = parse_compute(text, dialect);
    RC_ASSERT(!compute || (compute.value >= 1 && compute.value <= kWholePpm));
    const auto memory = parse_memory(text, dialect);
    RC_ASSERT(!memory || (memory.value.said() && memory.value.ppm <= kWholePpm));
  }
}

}  // namespace
}  // namespace headgate::grant
