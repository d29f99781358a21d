// Parses JSON. nlohmann's parser is compiled here once, because it costs more than a second in each file that calls it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace headgate {

// Returns a value with is_discarded() if the text is no JSON. Nesting is not limited: for texts of ours, and of the
// daemon that we ask.
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text);

}  // namespace headgate
