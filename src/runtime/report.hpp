// How a refusal reaches the user of an engine: docker and containerd read it from the file of --log, podman shows what
// is on stderr.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "runtime/arguments.hpp"

namespace headgate::runtime {

enum class Severity { warning, error };

// "headgate: MESSAGE (HINT)" on one line.
[[nodiscard]] std::string sentence(const Error& error);
// {"level":"error","msg":...,"time":...} and a line break, as runc writes it. `time`: RFC 3339.
[[nodiscard]] std::string log_line(Severity severity, std::string_view message, std::string_view time);

// Appends to the file of --log, and writes to stderr. Ignores a log that cannot be written.
void report(const Arguments& arguments, Severity severity, const std::string& message);

}  // namespace headgate::runtime
