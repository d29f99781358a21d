// Which process has a file mapped, by /proc/PID/maps. That file may have as many lines as a process cares to make
// mappings, and the kernel takes a microsecond for each: it is read a part at a time, by whoever cannot stand still for
// long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace headgate::identity {

// Whether one process has one file mapped, told by its inode or by its path as /proc shows it (file systems laid over
// another show one or the other). Holds a descriptor. It goes on with the process as it was at the start, whoever has
// its pid by then.
class MapsSearch {
 public:
  enum class Answer {
    yes,
    no,
    hidden,   // we may not look, it has ended, or it has more mappings than can be read
    not_yet,  // the bytes are used up: ask again
  };
  // More is read of nobody, who could make mappings faster than they are read.
  static constexpr std::size_t kMaxBytes = 64u << 20;

  // `proc`: see process.hpp. `inode` 0: not known.
  MapsSearch(const std::string& proc, std::uint32_t pid, std::uint64_t inode, std::string path);

  // Reads on, at most `bytes`, from which it takes what it has read. Not to be asked again after another answer than
  // not_yet.
  [[nodiscard]] Answer look(std::size_t& bytes);

  [[nodiscard]] std::uint32_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool is_it(std::string_view line) const;
  [[nodiscard]] bool found_in(std::string_view text);

  UniqueFd maps_;
  std::uint32_t pid_;
  std::uint64_t inode_;
  std::string path_;
  std::string rest_;  // of a line whose end has not been read
  std::size_t read_ = 0;
};

}  // namespace headgate::identity
