// Formats parts of a CDI document as JSON with their field names.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "oci/cdi_document.hpp"

namespace headgate::oci {

using OrderedJson = nlohmann::ordered_json;

[[nodiscard]] OrderedJson to_json(const Hook& hook);
[[nodiscard]] OrderedJson to_json(const IntelRdt& rdt);

}  // namespace headgate::oci
