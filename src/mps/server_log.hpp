// Reads the log of a control daemon's servers. Release 535's tool does not tell a server's fault, and no release tells
// one whose clients have ended already, or a request that a server leaves unanswered; the log does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
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

// Reads the log's lines. The words are those of the 535 driver, whose library holds the server's code, and of logs of
// release 580.
class LogReader {
 public:
  // Takes one line without its end, with or without the "[time Server PID] " before the text.
  void take(std::string_view line);
  // Returns the news since the last call.
  [[nodiscard]] LogNews news();
  // Returns, by server, the number (from 1) of its first request of a client that has no answer yet. Empty until some
  // answer was read: a release may answer in unknown words.
  [[nodiscard]] std::map<pid_t, std::uint64_t> unanswered() const;
  // Forgets all but the numbers of requests, because lines were lost.
  void forget();

 private:
  void note_fault(pid_t server, std::optional<pid_t> client);

  struct Server {
    bool after_fault = false, in_list = false;
    std::uint64_t unanswered = 0;  // the request's number; 0: none
  };
  std::map<pid_t, Server> servers_;
  LogNews news_;
  std::uint64_t requests_ = 0;
  bool has_answers_ = false;
};

class ServerLog {
 public:
  // `directory`: the control daemon's log directory.
  explicit ServerLog(const std::string& directory = {}) : path_(directory + "/server.log") {}

  // Passes over what is there: it was told before, or is of former servers.
  void skip();
  // As LogReader::news(), of what has been logged since the last call. Reads at most the last 256 KiB of it.
  [[nodiscard]] LogNews news();
  [[nodiscard]] std::map<pid_t, std::uint64_t> unanswered() const { return reader_.unanswered(); }

 private:
  // Returns the file's size; 0 if there is none.
  std::uint64_t open();
  void restart_at(std::uint64_t offset);

  std::string path_;
  UniqueFd file_;             // kept open, so that a file that is made again has another inode
  std::uint64_t offset_ = 0;  // of the next line
  LogReader reader_;
};

}  // namespace headgate::mps
