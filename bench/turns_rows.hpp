// How closely real processes under the built headgated follow the arbiter's intended turns, by the simulator's truth.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Shares of one GPU that all want it: the split, what pauses leave to others, how long each waits, the arbiter's cost.
// What is judged of a split: see split.hpp. Each row runs once for 10 s (with --quick three rows for 4 s), from when
// all of its tenants are at work.
[[nodiscard]] Result<Section> turns_section(const Setting& setting, const NoiseSampler& noise);

}  // namespace headgate::bench
