// `headgate support-bundle`: what somebody needs who helps from afar, in one archive, without names of people and
// machines.
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
  std::vector<std::string> about;  // of each file: what is in it
  std::vector<std::string> lacks;  // what there is none of, and why
};

// Each file by its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

// The exit status. `self_test`: of the doctor, whose report is in the bundle.
[[nodiscard]] int support_bundle(const Invocation& invocation, const config::Reading& reading,
                                 const SelfTest& self_test);

}  // namespace headgate::cli
