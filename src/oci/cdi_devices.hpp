// The devices of several CDI files by name, and the edits an engine makes to a container that requests some of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "oci/cdi_cache.hpp"
#include "oci/container_config.hpp"

namespace headgate::oci {

class CdiDevices {
 public:
  CdiDevices() = default;
  explicit CdiDevices(std::vector<CdiFile> files);

  [[nodiscard]] bool has_vendor(std::string_view vendor) const;
  // Returns a file's common edits once, before those of its first device; devices in the order of their names. Errors:
  // not_found, listing all unknown names, before any edits; the hint says why if a file is at fault.
  [[nodiscard]] Result<Edits> edits_of(std::span<const std::string> names) const;

 private:
  struct Place {
    std::size_t file = 0, device = 0;
  };
  std::vector<CdiFile> files_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, std::string, std::less<>> problems_;  // names that appear in files but that no engine accepts
};

}  // namespace headgate::oci
