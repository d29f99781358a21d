// What is done with a process that the audit has named: by the operator's choice, nothing, a freeze, or the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::node {

enum class AuditPolicy { warn, freeze, kill };

// "warn", "freeze", "kill". Errors: usage.
[[nodiscard]] Result<AuditPolicy> parse_audit_policy(std::string_view text);

// Where /proc and the cgroup file systems lie; tests have others.
struct Roots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// A process as the audit judged it: its number may be another's by the time somebody acts.
struct ProcessRef {
  std::uint32_t pid = 0, start_time = 0;  // as of identity::Process
};

// A cgroup that was frozen, as its file and the word that lets it go on.
struct Frozen {
  std::string cgroup, file, thaw;
};

struct EnforcementResult {
  std::string text;              // in words: "was frozen with its cgroup /x"
  std::optional<Frozen> frozen;  // where that was done
};

// Carries `policy` out against one process and answers what was done. Nothing is done
// to a process of another start time than that which was judged, nor where that is not known. Kill goes through its
// pidfd. Freeze goes through its cgroup (version 2, or version 1's freezer) where that is its own: neither the root nor
// a login session nor one that we, or init, sit in. Who shares one is moved into a new one below it, and frozen alone;
// what he has counted stays where it was. Errors: denied, failed, unsupported; he runs on then.
[[nodiscard]] Result<EnforcementResult> enforce(AuditPolicy policy, const ProcessRef& process_ref,
                                                const Roots& roots = {});

}  // namespace headgate::node
