// Errors as values. A Result<T> is a T or an Error that a person can act on; TRY returns early.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace headgate {

// What went wrong, by the action it asks for. The command's exit status and HTTP status derive from it.
enum class ErrorCode {
  failed,       // an operation failed for a reason that lies outside (exit 1)
  usage,        // the caller wrote something we do not accept (exit 2)
  unreachable,  // the daemon, the driver or the simulated node does not answer (exit 3)
  no_capacity,  // what was asked for does not fit (exit 4)
  denied,       // permission (exit 5)
  unsupported,  // not possible here, or only at a lower level (exit 6)
  not_found,    // nothing of that name is there, for this caller (exit 2)
  conflict,     // not while it is as it is: a name that is taken, a share in use (exit 1)
  busy,         // not at this moment: nothing was done, and the same may work when it is tried again (exit 3)
};

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;  // what was wrong, with the value
  std::string hint;     // what is accepted or what to do; may be empty

  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(hint)});
}

// "WHAT: strerror(error_number)" as an Error; EACCES and EPERM become denied, ENOSPC no_capacity.
[[nodiscard]] std::unexpected<Error> fail_errno(std::string what, int error_number, std::string hint = {});

// Whether the same may work when it is asked for again, with nothing changed but the time.
[[nodiscard]] constexpr bool may_pass(ErrorCode code) {
  return code == ErrorCode::unreachable || code == ErrorCode::busy;
}

// The process exit status for a code, as above.
[[nodiscard]] int exit_status(ErrorCode code);
// The code as programs read it, in HTTP answers and under --json: "no_capacity".
[[nodiscard]] std::string_view error_word(ErrorCode code);

}  // namespace headgate

// TRY(expr): the value of expr, or return its Error from the enclosing function. Not inside coroutine awaits.
#define TRY(expr)                                                     \
  ({                                                                  \
    auto headgate_try_result = (expr);                                \
    if (!headgate_try_result) {                                       \
      return std::unexpected(std::move(headgate_try_result).error()); \
    }                                                                 \
    std::move(*headgate_try_result);                                  \
  })
