// How near real processes under the built headgated come to the turns that its arbiter means, by the simulator's truth.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Shares of one GPU that all want it: the split, what pauses leave to others, who waits how long, what the arbiter
// costs. See split.hpp for what is judged of a split; each row runs once for 10 s (with --quick three rows for 4 s),
// from when all of its tenants are at work.
[[nodiscard]] Result<Section> turns_section(const Setting& setting, const NoiseSampler& noise);

}  // namespace headgate::bench
