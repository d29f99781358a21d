// The settings of container engines with headgate-oci as one of their runtimes. Pure: text in, text out.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::cli {

inline constexpr const char* kEngineRuntime = "headgate";  // by this name engines know headgate-oci

// Docker's daemon.json with the runtime, and CDI enabled; as it is where both are there already. Empty text is a file
// that is not there. Errors: usage where it is no object, or its parts are none.
[[nodiscard]] Result<std::string> with_docker_runtime(std::string_view text, const std::string& program);
// Without the runtime; CDI stays enabled, as others may use it. Empty if nothing else is left.
[[nodiscard]] Result<std::string> without_docker_runtime(std::string_view text);

// The drop-in of podman's containers.conf.d.
[[nodiscard]] std::string podman_drop_in(const std::string& program);
// What an administrator adds to containerd's and CRI-O's own files.
[[nodiscard]] std::string containerd_lines(const std::string& program);
[[nodiscard]] std::string crio_lines(const std::string& program);

// The lines that differ, "-" before those that go and "+" before those that come, with three lines around them.
[[nodiscard]] std::string line_diff(std::string_view before, std::string_view after);

}  // namespace headgate::cli
