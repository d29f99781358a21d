// Parses argv into an Invocation. Only this file and command_grammar.cpp use CLI11.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/support/limiter_files.hpp"
#include "cli/support/runtime_commands.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

struct RunOptions {
  std::optional<std::string> gpu, memory, host_memory, compute, burst, name;  // as written; null if not given
  std::optional<std::string> share;  // one that headgated has; the run joins it unchanged
  // Need the daemon. wait: the time limit, "" for none.
  std::optional<std::string> weight, wait, on_oom, priority_class, ttl;
  bool allow_unenforced = false;
  std::vector<std::string> command;
};

// What was requested; fields of other commands keep their defaults.
struct Invocation {
  std::string command;  // "status", "run", "sim truth", ...
  Voice voice;
  std::vector<std::string> warnings;    // to be told on stderr: options written under a former name
  std::optional<std::string> help;      // print this on stdout and stop
  std::optional<std::string> simulate;  // --sim[=PROFILE]; "" without a profile
  std::string config_path;              // --config; "" for the usual place
  std::string share;                    // why, share ...; power apply: a profile; power keep, end: a lease
  std::map<std::string, std::string>
      order;                       // share create, share set, quota set, quota rm, power: options under the API's names
  std::vector<std::string> parts;  // share rebalance: NAME=PART; power set: values, as written
  std::string fit;                 // free
  std::string shell;               // completion
  std::string file;                // support-bundle: where to; "" for the usual place
  bool no_redact = false;          // support-bundle
  LimiterPlace limiter;            // limiter install, limiter remove
  std::vector<std::string> paths;  // cdi list, cdi validate
  EngineChoice engine;             // runtime configure, runtime unconfigure
  std::string rules;               // sim fault
  std::vector<std::string> libraries;     // doctor --symbols
  std::vector<std::string> rest;          // demo, bench, zeusd, docker, podman: their own words
  std::uint64_t interval_ms = 100;        // status, ps: between the two looks; top, events: between one and the next
  std::optional<std::uint64_t> watch_ms;  // status, ps, free, gpu ls, share ls: again and again
  bool origin = false;                    // config show
  bool once = false, readonly = false;    // top
  std::string by = "share";               // top: share, gpu, user, process
  bool follow = false;                    // events
  bool dry_run = false;                   // power set, apply, reset
  bool yes = false;                       // share create, share set, share rebalance, gpu policy: without asking
  std::string user, gpu;                  // ps, power: of this user, on this GPU; "" for all
  std::string kind;                       // events: what its kind begins with; share says whose
  std::optional<std::uint64_t> since_ns;  // events
  RunOptions run;
};

// Errors: usage, quoting what was written and naming what is accepted.
[[nodiscard]] Result<Invocation> parse(int argc, const char* const* argv);

// A node of the command tree, for completions and the manual's check.
struct CommandTree {
  std::string name, summary;
  std::vector<std::string> options;  // "--mem", "-o", ...
  std::vector<std::string> valued;   // options that take a value
  std::vector<CommandTree> commands;
};
[[nodiscard]] CommandTree command_tree();

}  // namespace headgate::cli
