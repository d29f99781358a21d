// Reads [[power.grant]] tables; for config.cpp, which has included config/toml.hpp.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "config/power_grants.hpp"
#include "config/toml.hpp"

namespace headgate::config {

// Adds the tables of `node`, which is to be an array of tables, to `grants`; each mistake to `errors`. `file`: for
// messages.
void read_power_grants(const toml::node& node, const std::string& file, std::vector<PowerGrant>& grants,
                       std::vector<Error>& errors);

}  // namespace headgate::config
