// What an engine makes of several CDI files together: which devices it has, and which it has not because files
// disagree.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

struct CdiFile {
  std::string path;
  std::size_t priority = 0;  // of its directory; the higher goes first
  Result<Document> document;
};

struct CdiDevice {
  std::string name;  // VENDOR/CLASS=NAME
  std::string path, version;
  // Why an engine does not take this one; empty: it does. "in conflict with FILE", "shadowed by FILE".
  std::string problem;
  friend bool operator==(const CdiDevice&, const CdiDevice&) = default;
};

// By name, then path. Files that are no documents have no devices. Of one name, engines take the device of the highest
// priority; if two files of one priority have it, they take none at all, also where a file of a higher priority has it.
[[nodiscard]] std::vector<CdiDevice> resolve(const std::vector<CdiFile>& files);

}  // namespace headgate::oci
