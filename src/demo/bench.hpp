// `headgate bench`: checks on the user's GPU, or a simulated one, that limits hold.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/term/output.hpp"

namespace headgate::demo {

// Blocks for about 20 s. `simulate`: a simulated node's profile ("" for the default), null for the real GPU. Returns
// the exit status: 0 if every limit held, 1 if one did not, 2 for usage errors, 3 if no driver answers.
[[nodiscard]] int bench(const cli::Voice& voice, const std::optional<std::string>& simulate,
                        std::span<const std::string> words);

}  // namespace headgate::demo
