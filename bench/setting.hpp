// What is measured with what: programs, libraries, how often. Filled by main from the command line.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "load/child.hpp"
#include "load/done.hpp"

namespace headgate::bench {

// A library that is preloaded, and the environment that tells it its limits. "{percent}" and "{bytes}" in a value are
// replaced by the limit of the case at hand (a name whose limit the case does not set is left out), "{dir}" by the
// case's own directory.
struct Candidate {
  std::string name;
  std::string library;  // empty: nothing is preloaded
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
  std::string only_case;  // part of the name of a row of share or kinds, "50 %  200 us, 4 streams"; empty: all
  std::string directory;  // for nodes and shares; ours, empty at the start
};

// Limits of one case; zero is none.
struct Limits {
  unsigned percent = 0;
  std::uint64_t bytes = 0;
};

// The child of a case: `candidate` preloaded over the driver in `driver_dir`, in a clean environment, with a runtime
// directory and a node of its own under setting.directory/CASE. Without limits only the library is preloaded.
[[nodiscard]] load::ChildSpec child_of(const Setting& setting, const Candidate& candidate,
                                       const std::string& driver_dir, const std::string& case_name, Limits limits,
                                       std::vector<std::string> argv);

// Directories of a case, made by child_of's caller through make_case().
[[nodiscard]] std::string node_of(const Setting& setting, const std::string& case_name);
[[nodiscard]] std::string runtime_of(const Setting& setting, const std::string& case_name);
[[nodiscard]] Result<std::string> make_case(const Setting& setting);  // a fresh name
void remove_case(const Setting& setting, const std::string& case_name);

// One line on stderr.
void progress(const std::string& text);

}  // namespace headgate::bench
