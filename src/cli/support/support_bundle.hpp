// `headgate support-bundle`: collects what remote support needs in one archive, without names of people and machines.
#pragma once

#include <string>
#include <vector>

#include "cli/support/archive.hpp"
#include "cli/support/redact.hpp"

namespace headgate::cli {

struct Bundle {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // a description of each file
  std::vector<std::string> lacks;  // what is missing, and why
};

// Redacts each file by the type in its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

}  // namespace headgate::cli
