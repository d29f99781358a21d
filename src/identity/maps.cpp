#include "identity/maps.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace headgate::identity {

MapsSearch::MapsSearch(const std::string& proc, std::uint32_t pid, std::uint64_t inode, std::string path)
    : maps_(::open((proc + "/" + std::to_string(pid) + "/maps").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      pid_(pid),
      inode_(inode),
      path_(std::move(path)) {}

// "FROM-TO MODE OFFSET MAJOR:MINOR INODE   PATH"; the path is the rest of the line.
bool MapsSearch::is_it(std::string_view line) const {
  for (int word = 0; word < 4; ++word) {
    const std::size_t blank = line.find(' ');
    if (blank == line.npos) return false;
    line.remove_prefix(blank + 1);
  }
  std::uint64_t inode = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), inode);
  if (error == std::errc{} && inode_ != 0 && inode == inode_) return true;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != line.npos && line.substr(begin) == path_;
}

bool MapsSearch::found_in(std::string_view text) {
  for (;;) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;
    const bool found = rest_.empty() ? is_it(text.substr(0, end)) : is_it(rest_.append(text.substr(0, end)));
    if (found) return true;
    rest_.clear();
    text.remove_prefix(end + 1);
  }
  rest_.append(text);
  return false;
}

MapsSearch::Answer MapsSearch::look(std::size_t& bytes) {
  if (!maps_) return Answer::hidden;
  std::array<char, 16384> chunk;
  while (bytes > 0) {
    const ssize_t length = ::read(maps_.get(), chunk.data(), std::min(chunk.size(), bytes));
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return Answer::hidden;
    // An exiting process shows no mappings at all.
    if (length == 0) return read_ == 0 ? Answer::hidden : Answer::no;
    read_ += static_cast<std::size_t>(length);
    bytes -= static_cast<std::size_t>(length);
    if (found_in({chunk.data(), static_cast<std::size_t>(length)})) return Answer::yes;
    if (read_ > kMaxBytes) return Answer::hidden;
  }
  return Answer::not_yet;
}

}  // namespace headgate::identity
