// Merges several CDI files as an engine does: which devices it offers, which not because files conflict, and the edits
// it makes to a container that requests some of them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
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
