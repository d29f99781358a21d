// Merges several CDI files as an engine does: which devices it offers, and which not because files conflict.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

struct CdiFile {
  std::string path;
  std::size_t priority = 0;  // of its directory; higher values win
  Result<Document> document;
};

struct CdiDevice {
  std::string name;  // VENDOR/CLASS=NAME
  std::string path, version;
  // Why engines ignore this one; empty if they use it. "in conflict with FILE", "shadowed by FILE".
  std::string problem;
  friend bool operator==(const CdiDevice&, const CdiDevice&) = default;
};

// Returns all devices by name, then path. Invalid files have no devices. Of equal names, engines use the one of highest
// priority; if two files of one priority have it, none at all, even if a file of higher priority has it.
[[nodiscard]] std::vector<CdiDevice> resolve(const std::vector<CdiFile>& files);

}  // namespace headgate::oci
