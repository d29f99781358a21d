// headgate doctor: checks what headgate needs and says how to repair it. Changes nothing.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

enum class Health { ok, warn, fail };

struct Finding {
  Health health = Health::ok;
  std::string what;
  std::string repair;  // empty if nothing needs repair
};

struct Examination {
  std::vector<Finding> findings;
  bool daemon = false, simulated = false;
  bool has_gpu = false;  // a driver answers and has one
  std::string level;     // that holds: observe, hook, hook+container, hook+driver, mps, mig

  // Nothing failed, and there is a GPU to hold programs on.
  [[nodiscard]] bool ready() const;
};

// The findings, and a verdict on the last line.
[[nodiscard]] std::string findings_text(const Examination& examination, const Voice& voice);
[[nodiscard]] std::string findings_json(const Examination& examination);
// Runs a program in its own share, on a simulated node or a real GPU, and reports whether the limit held.
using SelfTest = std::function<Finding(bool simulated)>;
[[nodiscard]] Examination examine(const Call& call, const SelfTest& self_test);

// Checks the node's daemon and how to reach it. Returns its snapshot if it answers.
[[nodiscard]] std::optional<snapshot::Snapshot> examine_daemon(std::vector<Finding>& out);

// Compares a driver library, or a plain list of names, with the table of names.
struct SymbolReport {
  std::string library;
  std::string api;                   // "CUDA" or "NVML", judged by its exports
  std::size_t exported = 0;          // functions of that API in the library
  std::vector<std::string> unknown;  // exported, not in the table: not hooked
  std::vector<std::string> missing;  // in the table, not exported: from another driver version
  // Known and not hooked, with a name that suggests allocating or launching, and not in unhooked.def.
  std::vector<std::string> unexplained;

  [[nodiscard]] bool sound() const { return unknown.empty() && unexplained.empty(); }
};
[[nodiscard]] Result<SymbolReport> compare_symbols(const std::string& library);
[[nodiscard]] std::string symbols_text(const std::vector<SymbolReport>& reports, const Voice& voice);
[[nodiscard]] std::string symbols_json(const std::vector<SymbolReport>& reports);

// Whether /proc is mounted so that it hides other users' processes (hidepid, proc(5)).
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
