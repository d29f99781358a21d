// Converts YAML CDI documents to JSON, so that one parser checks both.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

// Parses by the file name's extension, .json or .yaml, as engines do. Errors: usage.
[[nodiscard]] Result<Document> read_file_text(std::string_view file_name, std::string_view text);

// Returns true if engines read a file of that name.
[[nodiscard]] bool is_document_name(std::string_view file_name);

// The first document of a YAML text as JSON; plain words are numbers and truth values by YAML 1.1, as engines take
// them. Errors: usage, with the line: no YAML, two equal keys, tags, deep nesting, aliases that make more than 100,000
// values.
[[nodiscard]] Result<std::string> json_from_yaml(std::string_view text);

}  // namespace headgate::oci
