// What log_line() prints, and where; until the environment has been read, errors on stderr.
#pragma once

#include <string_view>

#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

// `infos`: print infos even if `level` is lower.
void set_log_level(LogLevel level, bool infos = false);
// Takes an absolute path, opened for each line. No descriptor stays open that the program could close and reuse, a
// forked child can log, and log rotation works. Only the first call counts.
void set_log_file(std::string_view path);

}  // namespace headgate::limiter
