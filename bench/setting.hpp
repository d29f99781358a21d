// Parameters of the measurement: programs, libraries, number of runs. Set by main from the command line.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "load/child.hpp"

namespace headgate::bench {

// A preloaded library, and the environment variables that set its limits. In a value, "{percent}" and "{bytes}" stand
// for the case's limits and "{dir}" for its directory. A variable for a limit that the case does not set is left out.
struct Candidate {
  std::string name;
  std::string library;  // empty: no library is preloaded
  std::vector<std::pair<std::string, std::string>> environment{};

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// NAME=LIB.so[,VAR=VALUE...]. Errors (usage) name the text.
[[nodiscard]] Result<Candidate> parse_candidate(const std::string& text);

struct Setting {
  std::string cost_program, load_program, memory_program, power_program, mps_program, real_mps_tool, spin_program,
      containers_program, daemon_program, command_program, runtime_program, true_program = "/bin/true";
  std::string nop_driver_dir, simulator_dir;
  Candidate ours;
  std::vector<Candidate> peers;
  bool quick = false;
  unsigned rounds = 3;
  std::string only_case;  // part of a row's name in share or kinds, "50 %  200 us, 4 streams"; empty: all
  std::string directory;  // for nodes and shares; private, initially empty
};

// Limits of one case; zero means no limit.
struct Limits {
  unsigned percent = 0;
  std::uint64_t bytes = 0;
};

// Returns the child of a case: `candidate` preloaded over the driver in `driver_dir`, in a clean environment, with a
// private runtime directory and node under setting.directory/CASE. Without limits, only preloads the library.
[[nodiscard]] load::ChildSpec child_of(const Setting& setting, const Candidate& candidate,
                                       const std::string& driver_dir, const std::string& case_name, Limits limits,
                                       std::vector<std::string> argv);

// Directories of a case. The caller of child_of creates them with make_case().
[[nodiscard]] std::string node_of(const Setting& setting, const std::string& case_name);
[[nodiscard]] std::string runtime_of(const Setting& setting, const std::string& case_name);
[[nodiscard]] Result<std::string> make_case(const Setting& setting);  // returns a new name
void remove_case(const Setting& setting, const std::string& case_name);

// Prints one line to stderr.
void progress(const std::string& text);

}  // namespace headgate::bench
