// Finds by /proc/PID/maps whether a process has a file mapped. A process may have any number of mappings, and the
// kernel takes about a microsecond for each. Callers that must not block therefore read the file in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace headgate::identity {

// Checks one process for one file, by inode or by path as /proc shows it (overlay file systems show one or the other).
// Holds a descriptor, so it stays with that process even if its PID is reused.
class MapsSearch {
 public:
  enum class Answer {
    yes,
    no,
    hidden,   // no permission, the process has ended, or it has too many mappings to read
    not_yet,  // the byte budget is used up: call again
  };
  // Limit per process, which could otherwise add mappings faster than they are read.
  static constexpr std::size_t kMaxBytes = 64u << 20;

  // `proc`: see process.hpp. `inode` 0: unknown.
  MapsSearch(const std::string& proc, std::uint32_t pid, std::uint64_t inode, std::string path);

  // Reads at most `bytes` more and subtracts what it read. After any answer but not_yet, do not call it again.
  [[nodiscard]] Answer look(std::size_t& bytes);

  [[nodiscard]] std::uint32_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool is_it(std::string_view line) const;
  [[nodiscard]] bool found_in(std::string_view text);

  UniqueFd maps_;
  std::uint32_t pid_;
  std::uint64_t inode_;
  std::string path_;
  std::string rest_;  // the start of an incomplete line
  std::size_t read_ = 0;
};

}  // namespace headgate::identity
