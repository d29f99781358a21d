// Parses and checks a CDI document as strictly as the engines' library. Engines only tell their users "unresolvable CDI
// devices"; the errors here say where and why.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

inline constexpr std::size_t kMaxDocumentBytes = 4 << 20;

// Parses and checks a JSON document. Errors: usage; the message starts with the place:
// "devices[0].containerEdits.mounts[2]: ...".
[[nodiscard]] Result<Document> read_json(std::string_view text);

// Checks field values: names, versions, no duplicate devices, none without edits. Errors: usage, as above.
[[nodiscard]] Result<void> check(const Document& document);

}  // namespace headgate::oci
