#include "base/result.hpp"

#include <cerrno>
#include <cstring>

namespace headgate {

std::unexpected<Error> fail_errno(std::string what, int error_number, std::string hint) {
  auto code = ErrorCode::failed;
  if (error_number == EACCES || error_number == EPERM) code = ErrorCode::denied;
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == ENOMEM) code = ErrorCode::no_capacity;
  return fail(code, std::move(what) + ": " + std::strerror(error_number), std::move(hint));
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed:
    case ErrorCode::conflict: return 1;
    case ErrorCode::usage:
    case ErrorCode::not_found: return 2;
    case ErrorCode::unreachable:
    case ErrorCode::busy: return 3;
    case ErrorCode::no_capacity: return 4;
    case ErrorCode::denied: return 5;
    case ErrorCode::unsupported: return 6;
  }
  return 1;
}

std::string_view error_word(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed: return "failed";
    case ErrorCode::usage: return "usage";
    case ErrorCode::unreachable: return "unreachable";
    case ErrorCode::no_capacity: return "no_capacity";
    case ErrorCode::denied: return "denied";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::busy: return "busy";
  }
  return "failed";
}

}  // namespace headgate
