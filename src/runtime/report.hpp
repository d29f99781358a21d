// Shows refusals to an engine's user: docker and containerd read them from the file of --log, podman shows stderr.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "runtime/arguments.hpp"

namespace headgate::runtime {

enum class Severity { warning, error };

// Formats "headgate: MESSAGE (HINT)" on one line.
[[nodiscard]] std::string sentence(const Error& error);
// Formats {"level":"error","msg":...,"time":...} with a line break, like runc. `time`: RFC 3339.
[[nodiscard]] std::string log_line(Severity severity, std::string_view message, std::string_view time);

// Appends to the file of --log and writes to stderr. Ignores an unwritable log.
void report(const Arguments& arguments, Severity severity, const std::string& message);

}  // namespace headgate::runtime
