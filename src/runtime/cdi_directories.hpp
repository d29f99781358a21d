// The CDI files of directories, as engines find them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_cache.hpp"

namespace headgate::runtime {

// Where engines look, the lower priority first.
inline constexpr const char* kStaticCdiDirectory = "/etc/cdi";
inline constexpr const char* kDynamicCdiDirectory = "/var/run/cdi";

[[nodiscard]] Result<oci::Document> read_cdi_file(const std::string& path);

// The files of one directory, by name, not those of directories in it. Errors: of reading the directory.
[[nodiscard]] Result<std::vector<oci::CdiFile>> read_cdi_directory(const std::string& path, std::size_t priority);

}  // namespace headgate::runtime
