// `headgate bench`: proves on the user's own card, or on a simulated one, that limits hold.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/term/output.hpp"

namespace headgate::demo {

// Blocks for about 20 s. `simulate`: the profile of a simulated node ("" for the default one), null for the machine's
// own GPU. Exit status: 0 when every limit held, 1 when one did not, 2 for wrong words, 3 where no driver answers.
[[nodiscard]] int bench(const cli::Voice& voice, const std::optional<std::string>& simulate,
                        std::span<const std::string> words);

}  // namespace headgate::demo
