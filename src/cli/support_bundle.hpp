// `headgate support-bundle`: what somebody needs who helps from afar, in one archive, without names of people and machines.
#pragma once

#include <string>
#include <vector>

#include "cli/archive.hpp"
#include "cli/command_line.hpp"
#include "cli/redact.hpp"
#include "config/config.hpp"

namespace headgate::cli {

struct Bundle {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // of each file: what is in it
  std::vector<std::string> lacks;  // what there is none of, and why
};

// Each file by its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

// The exit status.
[[nodiscard]] int support_bundle(const Invocation& invocation, const config::Reading& reading);

}  // namespace headgate::cli
