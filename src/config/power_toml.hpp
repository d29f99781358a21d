// Parses [[power.grant]] and [power.profile.NAME] tables. For config.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/power_settings.hpp"
#include "config/toml.hpp"

namespace headgate::config {

// Appends the tables of `node`, which must be an array of tables, to `grants`, and mistakes to `errors`. `file`: for
// messages.
void read_power_grants(const toml::node& node, const std::string& file, std::vector<PowerGrant>& grants,
                       std::vector<Error>& errors);

// Adds the tables of `node` to `profiles`, replacing profiles of the same name, and mistakes to `errors`.
void read_power_profiles(const toml::node& node, const std::string& file, std::vector<PowerProfile>& profiles,
                         std::vector<Error>& errors);

}  // namespace headgate::config
