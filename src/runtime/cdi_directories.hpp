// Reads the CDI files of directories, as engines do.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_cache.hpp"

namespace headgate::runtime {

// The directories that engines read, lower priority first.
inline constexpr const char* kStaticCdiDirectory = "/etc/cdi";
inline constexpr const char* kDynamicCdiDirectory = "/var/run/cdi";

[[nodiscard]] Result<oci::Document> read_cdi_file(const std::string& path);

// Returns the files of one directory by name, without subdirectories. Errors: those of reading the directory.
[[nodiscard]] Result<std::vector<oci::CdiFile>> read_cdi_directory(const std::string& path, std::size_t priority);

}  // namespace headgate::runtime
