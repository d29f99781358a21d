// Errors as values. A Result<T> is a T or an Error that the user can act on; TRY returns early.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace headgate {

// Error classes by the reaction they call for. Exit statuses and HTTP statuses derive from them.
enum class ErrorCode {
  failed,       // an operation failed for an external reason (exit 1)
  usage,        // the caller's input is not accepted (exit 2)
  unreachable,  // the daemon, the driver or the simulated node does not answer (exit 3)
  no_capacity,  // the request does not fit (exit 4)
  denied,       // permission (exit 5)
  unsupported,  // not possible here, or only at a lower level (exit 6)
  not_found,    // it does not exist for this caller (exit 2)
  conflict,     // not in the present state: a name is taken, a share is in use (exit 1)
  busy,         // not now: nothing was done, and a retry may succeed (exit 3)
};

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;  // what was wrong, quoting the value
  std::string hint;     // what is accepted or what to do; may be empty

  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(hint)});
}

// Returns "WHAT: strerror(error_number)" as an Error; EACCES and EPERM become denied, ENOSPC no_capacity.
[[nodiscard]] std::unexpected<Error> fail_errno(std::string what, int error_number, std::string hint = {});

// Returns true if a retry may succeed without any other change.
[[nodiscard]] constexpr bool may_pass(ErrorCode code) {
  return code == ErrorCode::unreachable || code == ErrorCode::busy;
}

// Returns the exit status for a code, as listed above.
[[nodiscard]] int exit_status(ErrorCode code);
// Returns the code's name in HTTP replies and under --json: "no_capacity".
[[nodiscard]] std::string_view error_word(ErrorCode code);

// Takes the value out of a result that has one; for TRY.
template <typename T, typename E>
T take_value(std::expected<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace headgate

// TRY(expr): the value of expr (none if it is a Result<void>), or return its error from the enclosing function. Takes
// any std::expected. Not inside coroutine awaits. A TRY may stand in another's expr: each has a name for its result.
#define TRY(expr) HEADGATE_TRY(expr, __COUNTER__)
#define HEADGATE_TRY(expr, number) HEADGATE_TRY_NAMED(expr, number)
#define HEADGATE_TRY_NAMED(expr, number) HEADGATE_TRY_AS(expr, headgate_try_##number)
// NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot be enclosed
#define HEADGATE_TRY_AS(expr, result)                    \
  ({                                                     \
    auto result = (expr);                                \
    if (!result) {                                       \
      return std::unexpected(std::move(result).error()); \
    }                                                    \
    ::headgate::take_value(std::move(result));           \
  })
// NOLINTEND(bugprone-macro-parentheses)
