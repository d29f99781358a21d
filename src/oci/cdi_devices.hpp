// The devices of several CDI files by name, and what an engine edits in a container that is given some of them.
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
  // Edits of a whole file, once, before those of the first of its devices; devices in the order of their names. Errors:
  // not_found with all names that no file has, before anything is edited; the hint says why where a file is to blame.
  [[nodiscard]] Result<Edits> edits_of(std::span<const std::string> names) const;

 private:
  struct Place {
    std::size_t file = 0, device = 0;
  };
  std::vector<CdiFile> files_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, std::string, std::less<>> problems_;  // of names that files have, and no engine takes
};

}  // namespace headgate::oci
