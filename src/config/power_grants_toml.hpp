// Parses [[power.grant]] tables. For config.cpp, which must include config/toml.hpp first.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "config/power_grants.hpp"
#include "config/toml.hpp"

namespace headgate::config {

// Appends the tables of `node`, which must be an array of tables, to `grants`, and mistakes to `errors`. `file`: for
// messages.
void read_power_grants(const toml::node& node, const std::string& file, std::vector<PowerGrant>& grants,
                       std::vector<Error>& errors);

}  // namespace headgate::config
