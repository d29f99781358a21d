#include "base/result.hpp"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace headgate {
namespace {

// In the order of ErrorCode.
constexpr struct {
  std::string_view word;
  int exit_status;
} kCodes[] = {{"failed", 1},      {"usage", 2},     {"unreachable", 3}, {"no_capacity", 4}, {"denied", 5},
              {"unsupported", 6}, {"not_found", 2}, {"conflict", 1},    {"busy", 3}};
static_assert(std::size(kCodes) == static_cast<std::size_t>(ErrorCode::busy) + 1);

}  // namespace

std::unexpected<Error> fail_errno(std::string what, int error_number, std::string hint) {
  auto code = ErrorCode::failed;
  if (error_number == EACCES || error_number == EPERM) code = ErrorCode::denied;
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == ENOMEM) code = ErrorCode::no_capacity;
  return fail(code, std::move(what) + ": " + std::strerror(error_number), std::move(hint));
}

int exit_status(ErrorCode code) { return kCodes[static_cast<std::size_t>(code)].exit_status; }

std::string_view error_word(ErrorCode code) { return kCodes[static_cast<std::size_t>(code)].word; }

}  // namespace headgate
