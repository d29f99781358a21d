// Detects whether /proc is mounted so that it hides other users' processes (hidepid, proc(5)). Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace headgate::cli {

struct ProcHiding {
  std::string option;        // as the kernel shows it: "hidepid=invisible"
  bool ptraceable = false;   // only CAP_SYS_PTRACE overrides it, whatever the group
  std::optional<gid_t> gid;  // members of this group see all processes
};

// Reads the options of the topmost mount on /proc from /proc/PID/mountinfo. Empty if it hides nothing.
[[nodiscard]] std::optional<ProcHiding> proc_hiding(std::string_view mountinfo);
// Returns true if a process with that /proc/PID/status still sees all processes.
[[nodiscard]] bool sees_through(const ProcHiding& hiding, std::string_view status);

}  // namespace headgate::cli
