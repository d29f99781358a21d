// Finds faults in the log of a control daemon's servers. Release 535's tool does not tell a server's fault, and no
// release tells one whose clients have ended already; the log does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace headgate::mps {

// Reads the log's lines. The words are those of the 535 driver, whose library holds the server's code.
class FaultReader {
 public:
  // Takes one line without its end, with or without the "[time Server PID] " before the text.
  void take(std::string_view line);
  // Returns the clients named with the faults since the last call; nothing if there was no fault.
  [[nodiscard]] std::optional<std::set<pid_t>> faults();

 private:
  std::optional<std::set<pid_t>> found_;
  bool after_fault_ = false, in_list_ = false;
};

class ServerLog {
 public:
  // `directory`: the control daemon's log directory.
  explicit ServerLog(const std::string& directory = {}) : path_(directory + "/server.log") {}

  // Passes over what is there: it was told before, or is of former servers.
  void skip();
  // As FaultReader::faults(), for what has been logged since the last call. Reads at most the last 256 KiB of it.
  [[nodiscard]] std::optional<std::set<pid_t>> faults();

 private:
  // Returns the file's size; 0 if there is none.
  std::uint64_t open();

  std::string path_;
  UniqueFd file_;             // kept open, so that a file that is made again has another inode
  std::uint64_t offset_ = 0;  // of the next line
  FaultReader reader_;
};

}  // namespace headgate::mps
