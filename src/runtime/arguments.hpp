// Parses the command line that an engine gives its OCI runtime. runc and crun take the same, each with its own options
// before the command.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace headgate::runtime {

struct Arguments {
  std::string command;              // create, run, start, delete, ...; empty: none
  std::string bundle = ".";         // for create and run
  std::string log;                  // value of --log; empty: none
  bool log_is_json = false;         // --log-format json
  std::string configuration;        // --headgate-config; empty: the default file
  std::vector<std::string> passed;  // all words except ours, for runc
};

// `words`: without the program's name.
[[nodiscard]] Arguments read_arguments(std::span<const std::string> words);

}  // namespace headgate::runtime
