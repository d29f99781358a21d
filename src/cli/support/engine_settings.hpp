// Adds headgate-oci as a runtime to the settings of container engines. Pure: text in, text out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

inline constexpr const char* kEngineRuntime = "headgate";  // the name by which engines know headgate-oci

// Returns Docker's daemon.json with the runtime added and CDI enabled, unchanged if both are present. Empty text counts
// as a missing file. Errors: usage if it is not an object, or a part has the wrong type.
[[nodiscard]] Result<std::string> with_docker_runtime(std::string_view text, const std::string& program);
// Removes the runtime; CDI stays enabled, because others may use it. Empty if nothing else is left.
[[nodiscard]] Result<std::string> without_docker_runtime(std::string_view text);

// Returns the drop-in for podman's containers.conf.d.
[[nodiscard]] std::string podman_drop_in(const std::string& program);
// Return the lines to add to containerd's and CRI-O's own files.
[[nodiscard]] std::string containerd_lines(const std::string& program);
[[nodiscard]] std::string crio_lines(const std::string& program);

// Returns the differing lines, marked "-" and "+", with three lines of context.
[[nodiscard]] std::vector<std::string> line_diff(std::string_view before, std::string_view after);

}  // namespace headgate::cli
