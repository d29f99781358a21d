// `headgate support-bundle`: collects what remote support needs in one archive, without names of people and machines.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/support/archive.hpp"
#include "cli/support/doctor.hpp"
#include "cli/support/redact.hpp"
#include "config/config.hpp"

namespace headgate::cli {

struct Bundle {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // a description of each file
  std::vector<std::string> lacks;  // what is missing, and why
};

// Redacts each file by the type in its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

// Returns the exit status. `self_test`: the doctor's; the bundle contains its report.
[[nodiscard]] int support_bundle(const Invocation& invocation, const config::Reading& reading,
                                 const SelfTest& self_test);

}  // namespace headgate::cli
