#include "base/result.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace headgate {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return fail(ErrorCode::usage, std::to_string(number) + " is odd", "give an even number");
  return number / 2;
}

Result<int> quarter(int number) {
  const int once = TRY(half(number));
  return TRY(half(once));
}

Result<int> eighth(int number) { return TRY(half(TRY(half(TRY(half(number)))))); }

Result<std::unique_ptr<int>> boxed(int number) { return std::make_unique<int>(TRY(half(number))); }

TEST(Result, AnErrorReturnsToTheCallerWithItsHint) {
  const auto result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), (Error{ErrorCode::usage, "3 is odd", "give an even number"}));
}

TEST(Result, AValuePassesThroughTry) { EXPECT_EQ(quarter(12).value(), 3); }

TEST(Result, TryMayStandInsideTry) {
  EXPECT_EQ(eighth(24).value(), 3);
  EXPECT_EQ(eighth(12).error().message, "3 is odd");
}

TEST(Result, TryMovesValuesThatCannotBeCopied) {
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the analyzer forgets the temporary's destructor
  auto take = []() -> Result<int> { return *TRY(boxed(8)); };
  EXPECT_EQ(take().value(), 4);
}

TEST(Result, ASystemErrorNamesTheOperationAndTheCause) {
  const auto error = fail_errno("open /no/such", ENOENT, "create it").error();
  EXPECT_EQ(error.message, "open /no/such: No such file or directory");
  EXPECT_EQ(error.hint, "create it");
  EXPECT_EQ(error.code, ErrorCode::failed);
}

TEST(Result, DeniedAndFullDiskHaveDifferentExitStatus) {
  EXPECT_EQ(fail_errno("x", EACCES, "").error().code, ErrorCode::denied);
  EXPECT_EQ(fail_errno("x", EPERM, "").error().code, ErrorCode::denied);
  for (const int full : {ENOSPC, EDQUOT, ENOMEM})
    EXPECT_EQ(fail_errno("x", full, "").error().code, ErrorCode::no_capacity);
}

TEST(Result, ScriptsCanRelyOnTheExitStatusOfEachKindOfError) {
  const std::array<std::pair<ErrorCode, int>, 9> documented{{{ErrorCode::failed, 1},
                                                             {ErrorCode::usage, 2},
                                                             {ErrorCode::unreachable, 3},
                                                             {ErrorCode::no_capacity, 4},
                                                             {ErrorCode::denied, 5},
                                                             {ErrorCode::unsupported, 6},
                                                             {ErrorCode::not_found, 2},
                                                             {ErrorCode::conflict, 1},
                                                             {ErrorCode::busy, 3}}};
  for (const auto& [code, status] : documented) EXPECT_EQ(exit_status(code), status);
}

}  // namespace
}  // namespace headgate
