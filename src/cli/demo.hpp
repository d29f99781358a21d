// `headgate demo`: a simulated node, three tenants through the real `headgate run`, a live picture and a verdict from truth.
#pragma once

#include <span>
#include <string>

#include "cli/output.hpp"

namespace headgate::cli {

// Blocks for about 15 s (--seconds=N changes it). Exit status: 0 when every limit was kept (compute within 1 point over the
// whole measured part, memory to the byte, the refusal seen), 1 when not, 2 for wrong words, 130 after Ctrl-C.
// Leaves no file and no process behind; a terminal is restored however it ends, kill -9 excepted.
[[nodiscard]] int demo(const Voice& voice, std::span<const std::string> words);

}  // namespace headgate::cli
