#include "mps/server_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/trimmed.hpp"
#include "base/whole_number.hpp"

namespace headgate::mps {
namespace {

constexpr std::uint64_t kMostBytes = 256 << 10;

// Returns the number at the beginning; nothing for 0, which stands for a client whose PID the server does not know.
std::optional<pid_t> pid_at(std::string_view text) {
  const auto pid = whole_number<std::uint32_t>(text.substr(0, text.find_first_not_of("0123456789")));
  if (!pid || *pid == 0 || *pid > INT32_MAX) return std::nullopt;
  return static_cast<pid_t>(*pid);
}

std::optional<pid_t> pid_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : pid_at(text.substr(at + words.size()));
}

}  // namespace

void FaultReader::take(std::string_view line) {
  if (line.starts_with('[') && line.contains("] ")) line.remove_prefix(line.find("] ") + 2);
  const std::string_view text = trimmed(line);
  if (text.contains("fatal GPU error")) {
    if (!found_) found_.emplace();
    after_fault_ = true;
  }
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  std::optional<pid_t> client;
  if (is_number && in_list_) client = pid_at(text);
  else if (text.contains("fatal GPU error")) client = pid_after(text, "Client process ");
  else if (after_fault_ && text.contains("INACTIVE"))
    client = pid_after(text, text.contains("{PID: ") ? "{PID: " : "{");
  if (!is_number) in_list_ = after_fault_ && text.contains("have a sticky error");
  if (text.contains("is ACTIVE")) after_fault_ = false;  // it serves again
  if (!client) return;
  if (!found_) found_.emplace();
  found_->insert(*client);
}

std::optional<std::set<pid_t>> FaultReader::faults() { return std::exchange(found_, std::nullopt); }

std::uint64_t ServerLog::open() {
  struct stat named{}, known{};
  const bool is_known = file_ && ::fstat(file_.get(), &known) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
                        named.st_ino == known.st_ino && named.st_dev == known.st_dev;
  if (!is_known) {
    file_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file_ || ::fstat(file_.get(), &known) != 0 || !S_ISREG(known.st_mode)) file_ = {};
    offset_ = 0;
  }
  return file_ ? static_cast<std::uint64_t>(known.st_size) : 0;
}

void ServerLog::skip() {
  const std::uint64_t size = open();
  offset_ = size;
  reader_ = {};
}

std::optional<std::set<pid_t>> ServerLog::faults() {
  const std::uint64_t size = open();
  if (!file_) return std::nullopt;
  if (size < offset_) offset_ = 0;  // it was cut
  if (size - offset_ > kMostBytes) offset_ = size - kMostBytes;
  std::string text(size - offset_, '\0');
  const ssize_t count = ::pread(file_.get(), text.data(), text.size(), static_cast<off_t>(offset_));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  std::size_t at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    reader_.take(std::string_view(text).substr(at, end - at));
  offset_ += at;
  return reader_.faults();
}

}  // namespace headgate::mps
