// The forms that an answer can have (-o), and which of them a word of the command knows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

[[nodiscard]] const std::vector<std::string>& form_names();  // of all

// Errors: usage, with those that the word has.
[[nodiscard]] Result<Format> output_format_from(const std::string& word, const std::string& name);

}  // namespace headgate::cli
