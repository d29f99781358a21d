// `headgate demo`: the real headgated on a simulated node, with six tenants started by the real `headgate run`; shows a
// live view and a verdict from the simulator's truth. `headgate bench`: checks on the user's GPU, or a simulated one,
// that limits hold.
#pragma once

#include "cli/command.hpp"

namespace headgate::demo {

// Blocks for about 17 s (--seconds=N changes it). On a terminal the view is live; otherwise, or with --once, it prints
// events line by line and one frame at the end. Exit status: 0 if every promise was kept, 1 if not, 2 for usage errors,
// 130 after Ctrl-C, likewise for SIGTERM and SIGHUP. Promises: compute within 1 point over the measured time, memory to
// the byte, refusals reported, the program that bypasses the limiter named. Leaves no file or process, and the terminal
// as it was; after kill -9 daemon and tenants end, and only a directory of small files stays in TMPDIR.
[[nodiscard]] cli::Command demo_command();

// Blocks for about 20 s. Exit status: 0 if every limit held, 1 if one did not, 2 for usage errors, 3 if no driver
// answers. With --sim on a simulated node.
[[nodiscard]] cli::Command bench_command();

}  // namespace headgate::demo
