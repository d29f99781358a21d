// An OCI bundle: the directory of a container, with its config.json.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "oci/container_config.hpp"

namespace headgate::runtime {

class Bundle {
 public:
  // Errors: those of opening the directory.
  [[nodiscard]] static Result<Bundle> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] Result<oci::ContainerConfig> config() const;
  // Replaces config.json atomically, keeping owner and mode.
  [[nodiscard]] Result<void> replace_config(const oci::ContainerConfig& config) const;
  // Writes a file that every user may read; returns its path.
  [[nodiscard]] Result<std::string> put(const std::string& name, std::string_view text) const;

 private:
  Bundle(UniqueFd directory, std::string path) : directory_(std::move(directory)), path_(std::move(path)) {}
  Result<void> replace(const std::string& name, std::string_view text, const struct stat& like) const;

  UniqueFd directory_;
  std::string path_;
};

}  // namespace headgate::runtime
