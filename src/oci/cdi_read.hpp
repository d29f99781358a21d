// Reads and checks a CDI document as strictly as the engines' own library does: what an engine would pass over, with no
// more than "unresolvable CDI devices" to its user, is refused here with where and why.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

inline constexpr std::size_t kMaxDocumentBytes = 4 << 20;

// A JSON document, checked. Errors: usage; the message begins with where it is: "devices[0].containerEdits.mounts[2]:
// ...".
[[nodiscard]] Result<Document> read_json(std::string_view text);

// What the fields may hold: names, versions, no device twice, none without edits. Errors: usage, as above.
[[nodiscard]] Result<void> check(const Document& document);

}  // namespace headgate::oci
