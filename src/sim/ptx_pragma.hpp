// The pragmas that tell the simulated GPU how a kernel behaves. A real compiler only warns about them.
#pragma once

#include <string_view>

#include "sim/ptx.hpp"

namespace headgate::sim::ptx {

// Applies `pragma` to `behaviour`; ignores strings that do not begin with "headgate.". Errors: an unknown headgate
// pragma, a value out of range, a parameter that the entry lacks or that has the wrong type.
[[nodiscard]] Result<void> apply_pragma(std::string_view pragma, const Entry& entry, Behaviour& behaviour,
                                        unsigned line);

// Fills what `behaviour` does not specify from `outer`.
void inherit_behaviour(const Behaviour& outer, Behaviour& behaviour);

}  // namespace headgate::sim::ptx
