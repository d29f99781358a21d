// How much log_line() prints, and where; errors, on standard error, until the environment has been read.
#pragma once

#include <string_view>

#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

// `infos`: also where `level` is less than info.
void set_log_level(LogLevel level, bool infos = false);
// An absolute path, opened anew for each line: no descriptor is left where the program could close it and open a file
// of its own in its place, a forked child writes on, and whoever rotates the file need tell nobody. The first path
// stays.
void set_log_file(std::string_view path);

}  // namespace headgate::limiter
