// Parses and checks a CDI document as strictly as the engines' library. Engines only tell their users "unresolvable CDI
// devices"; the errors here say where and why.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

inline constexpr std::size_t kMaxDocumentBytes = 4 << 20;

// Parses and checks a JSON document. Errors: usage; the message starts with the place:
// "devices[0].containerEdits.mounts[2]: ...".
[[nodiscard]] Result<Document> read_json(std::string_view text);

// Parses by the file name's extension, .json or .yaml, as engines do. Errors: usage.
[[nodiscard]] Result<Document> read_file_text(std::string_view file_name, std::string_view text);

// Returns true if engines read a file of that name.
[[nodiscard]] bool is_document_name(std::string_view file_name);

// The first document of a YAML text as JSON, so that one parser checks both; plain words are numbers and truth values
// by YAML 1.1, as engines take them. Errors: usage, with the line: no YAML, two equal keys, tags, deep nesting, aliases
// that make more than 100,000 values.
[[nodiscard]] Result<std::string> json_from_yaml(std::string_view text);

// Checks field values: names, versions, no duplicate devices, none without edits. Errors: usage, as above.
[[nodiscard]] Result<void> check(const Document& document);

}  // namespace headgate::oci
