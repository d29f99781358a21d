// `headgate demo`: the real headgated on a simulated node, six tenants through the real `headgate run`, a live picture
// and a verdict from truth.
#pragma once

#include <span>
#include <string>

#include "cli/term/output.hpp"

namespace headgate::demo {

// Blocks for about 17 s (--seconds=N changes it). On a terminal the picture is live; elsewhere, and with --once, what
// happens is told line by line and one picture stands at the end. Exit status: 0 when every promise was kept (compute
// within 1 point over the whole measured part, memory to the byte, refusals told, who goes around the limiter named), 1
// when not, 2 for wrong words, 130 after Ctrl-C, likewise for SIGTERM and SIGHUP.
// Leaves no file and no process behind, and a terminal as it was; after kill -9 the daemon and the tenants end, and
// only the directory of small files in TMPDIR stays.
[[nodiscard]] int demo(const cli::Voice& voice, std::span<const std::string> words);

}  // namespace headgate::demo
