// Whether /proc shows the processes of other users: it can be mounted so that it does not (hidepid, proc(5)). Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace headgate::cli {

struct ProcHiding {
  std::string option;        // "hidepid=invisible", as the kernel shows it
  bool ptraceable = false;   // only CAP_SYS_PTRACE sees through it, whatever the group
  std::optional<gid_t> gid;  // whoever is in it sees all
};

// Of the uppermost file system on /proc, by /proc/PID/mountinfo. Empty: it hides nothing.
[[nodiscard]] std::optional<ProcHiding> proc_hiding(std::string_view mountinfo);
// Whether a process with that /proc/PID/status sees everybody all the same.
[[nodiscard]] bool sees_through(const ProcHiding& hiding, std::string_view status);

}  // namespace headgate::cli
