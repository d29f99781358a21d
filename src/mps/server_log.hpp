// Reads the log of a control daemon's servers. Release 535's tool does not tell a server's fault, and no release tells
// one whose clients have ended already, or a request that a server leaves unanswered; the log does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace headgate::mps {

struct LogNews {
  // By server, the clients named with its faults. Server 0: the line does not name it.
  std::map<pid_t, std::set<pid_t>> faults;
  bool unusual = false;  // there was a line other than those of clients that come and go

  friend bool operator==(const LogNews&, const LogNews&) = default;
};

// Reads the log's lines. The words are those of the 535 driver, whose library holds the server's code.
class LogReader {
 public:
  // Takes one line without its end, with or without the "[time Server PID] " before the text.
  void take(std::string_view line);
  // Returns the news since the last call.
  [[nodiscard]] LogNews news();
  // Returns the servers whose last client's request has no answer yet.
  [[nodiscard]] std::set<pid_t> unanswered() const;

 private:
  struct Server {
    bool after_fault = false, in_list = false, unanswered = false;
  };
  std::map<pid_t, Server> servers_;
  LogNews news_;
};

class ServerLog {
 public:
  // `directory`: the control daemon's log directory.
  explicit ServerLog(const std::string& directory = {}) : path_(directory + "/server.log") {}

  // Passes over what is there: it was told before, or is of former servers.
  void skip();
  // As LogReader::news(), of what has been logged since the last call. Reads at most the last 256 KiB of it.
  [[nodiscard]] LogNews news();
  [[nodiscard]] std::set<pid_t> unanswered() const { return reader_.unanswered(); }

 private:
  // Returns the file's size; 0 if there is none.
  std::uint64_t open();

  std::string path_;
  UniqueFd file_;             // kept open, so that a file that is made again has another inode
  std::uint64_t offset_ = 0;  // of the next line
  LogReader reader_;
};

}  // namespace headgate::mps
