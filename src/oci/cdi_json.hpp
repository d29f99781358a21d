// Parts of a CDI document as JSON, with the names of its fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "oci/cdi_document.hpp"

namespace headgate::oci {

using OrderedJson = nlohmann::ordered_json;

[[nodiscard]] OrderedJson json_of(const Hook& hook);
[[nodiscard]] OrderedJson json_of(const IntelRdt& rdt);

}  // namespace headgate::oci
