#include "identity/process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>

#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "base/whole_number.hpp"
#include "guest/ledger/clock.hpp"

namespace headgate::identity {
namespace {

// Returns the word at this index (from 0), separated by blanks.
std::string_view word_at(std::string_view text, std::size_t index) {
  for (;; --index) {
    text = trimmed(text);
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    if (index == 0) return text.substr(0, end);
    if (end == text.size()) return {};
    text.remove_prefix(end + 1);
  }
}

// Returns the value of "Name:\tvalue" in status.
std::optional<std::string_view> line_of(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::size_t end = std::min(status.find('\n'), status.size());
    const std::string_view line = status.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
      return trimmed(line.substr(name.size() + 1));
    status.remove_prefix(std::min(end + 1, status.size()));
  }
  return std::nullopt;
}

std::unexpected<Error> lacks(std::string_view what) {
  return fail(ErrorCode::failed, "the process's /proc files have no " + std::string(what));
}

std::uint32_t namespace_inode(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint32_t>(status.st_ino) : 0;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  constexpr std::size_t kMost = 1u << 20;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail_errno(path, errno);
  std::string text;
  std::array<char, 4096> chunk;
  for (;;) {
    const ssize_t length = ::read(file.get(), chunk.data(), chunk.size());
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return fail_errno(path, errno);
    if (length == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(length));
    if (text.size() > kMost) return fail(ErrorCode::failed, path + " is longer than 1 MiB");
  }
}

Result<Process> parse_process(std::string_view status, std::string_view stat) {
  Process process;
  // The name in field 2 of stat may contain any character, so fields are counted from the last ')'.
  const std::size_t close = stat.rfind(')');
  const std::size_t open = stat.find('(');
  if (close == stat.npos || open == stat.npos || open > close) return lacks("name in stat");
  const auto start = whole_number<std::uint64_t>(word_at(stat.substr(close + 1), 19));
  if (!start) return lacks("start time in stat");
  process.start_time = static_cast<std::uint32_t>(*start);
  // The kernel cuts names at this many bytes, even inside a character.
  constexpr std::size_t kMaxOfAName = 15;
  process.command = printable(stat.substr(open + 1, std::min(close - open - 1, kMaxOfAName)));
  const auto pid = whole_number<std::uint32_t>(line_of(status, "Pid").value_or(""));
  if (!pid || *pid == 0) return lacks("Pid in status");
  process.pid = *pid;
  const auto uid = whole_number<std::uint32_t>(word_at(line_of(status, "Uid").value_or(""), 1));
  if (!uid) return lacks("Uid in status");
  process.uid = *uid;
  const std::string_view state = line_of(status, "State").value_or("");
  // The first thread may be a zombie while other threads still run.
  const auto threads = whole_number<std::uint32_t>(line_of(status, "Threads").value_or("")).value_or(0);
  process.ended = (state.starts_with('Z') || state.starts_with('X')) && threads <= 1;
  process.parent = whole_number<std::uint32_t>(line_of(status, "PPid").value_or("")).value_or(0);
  process.namespace_pid = *pid;
  // Kernels without pid namespaces omit it.
  if (const auto pids = line_of(status, "NSpid")) {
    const auto inner = whole_number<std::uint32_t>(pids->substr(pids->find_last_of(" \t") + 1));
    if (!inner || *inner == 0) return lacks("number in NSpid of status");
    process.namespace_pid = *inner;
  }
  return process;
}

std::uint64_t program_mark(const std::string& proc, std::uint32_t pid) {
  const auto stat = read_file(proc + "/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat ? stat->rfind(')') : std::string::npos;
  if (!stat || close == std::string::npos) return 0;
  // Field 2 ends at `close`. The kernel reports 0 to readers that may not trace the process.
  return whole_number<std::uint64_t>(word_at(std::string_view(*stat).substr(close + 1), 25)).value_or(0);
}

Result<Process> read_process(const std::string& proc, std::uint32_t pid) {
  const std::string folder = proc + "/" + std::to_string(pid);
  const std::string status = TRY(read_file(folder + "/status"));
  // /proc/PID/stat sums the times of all threads, which takes a millisecond for ten thousand; a thread's own stat does
  // not.
  const std::string stat = TRY(read_file(folder + "/task/" + std::to_string(pid) + "/stat"));
  Process process = TRY(parse_process(status, stat));
  process.start_time = ledger::host_start_time(process.start_time);
  process.pidns_inode = namespace_inode(folder + "/ns/pid");
  return process;
}

Result<std::vector<CgroupLine>> read_cgroups(const std::string& proc, std::uint32_t pid) {
  return parse_cgroup(TRY(read_file(proc + "/" + std::to_string(pid) + "/cgroup")));
}

ProcessList list_processes(const std::string& proc) {
  Listing listing(proc);
  while (!listing.read(std::numeric_limits<std::size_t>::max())) {
  }
  return listing.take();
}

Listing::Listing(const std::string& proc) : proc_(proc), folder_(::opendir(proc.c_str()), &::closedir) {
  list_.complete = folder_ != nullptr;
}

bool Listing::read(std::size_t most) {
  while (most > 0) {
    const dirent* const entry = folder_ == nullptr ? nullptr : ::readdir(folder_.get());
    if (entry == nullptr) return true;
    const auto pid = whole_number<std::uint32_t>(entry->d_name);
    if (!pid) continue;
    --most;
    auto process = read_process(proc_, *pid);
    if (process) list_.all.push_back(std::move(*process));
    else if (process.error().code == ErrorCode::denied) list_.complete = false;  // otherwise it has ended
  }
  return false;
}

Search find_process(const ProcessList& list, std::uint32_t pidns_inode, std::uint32_t namespace_pid,
                    std::uint32_t start_time) {
  Search search{nullptr, list.complete};
  for (const Process& process : list.all) {
    const bool started_then =
        start_time == 0 || process.start_time == 0 || ledger::same_start(process.start_time, start_time);
    if (process.namespace_pid != namespace_pid || !started_then) continue;
    // Its namespace is not readable, so it may be the one searched for.
    if (process.pidns_inode == 0) search.certain = false;
    else if (pidns_inode == 0 || process.pidns_inode == pidns_inode) return {&process, true};
  }
  return search;
}

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
