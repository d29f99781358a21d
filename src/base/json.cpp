#include "base/json.hpp"

#include <nlohmann/json.hpp>

namespace headgate {

nlohmann::ordered_json parse_json(std::string_view text) { return nlohmann::ordered_json::parse(text, nullptr, false); }

}  // namespace headgate
