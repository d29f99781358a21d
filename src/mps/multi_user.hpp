// Finds out whether this machine's MPS tool has multi-user mode: one server for the programs of all users.
//
// The option alone proves nothing, because the tool's word is text for people. So a control daemon is started for no
// GPU, is asked for another user's server, and its log says whose server it started: root's in multi-user mode.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"
#include "mps/tool.hpp"

namespace headgate::mps {

// Returns if it works. `base` and `proc` as in Manager; `step` is called after each step. Errors: unsupported, with the
// tool's words; those of starting a daemon. No daemon is left.
[[nodiscard]] Result<void> probe_multi_user(const std::string& program, const std::string& base,
                                            const std::string& proc, const Limits& limits,
                                            const std::function<void()>& step);
// Ends what a killed daemon of ours left of its probe.
void end_multi_user_probe(const std::string& base, const std::string& proc);

}  // namespace headgate::mps
