// The output formats (-o), and which of them each command supports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

[[nodiscard]] const std::vector<std::string>& form_names();  // all formats

// Errors: usage, with those that the word has.
[[nodiscard]] Result<Format> output_format_from(const std::string& word, const std::string& name);

}  // namespace headgate::cli
