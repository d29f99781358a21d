#include "mps/server_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/trimmed.hpp"
#include "base/whole_number.hpp"

namespace headgate::mps {
namespace {

constexpr std::uint64_t kMostBytes = 256 << 10;
constexpr std::size_t kMostServers = 64;
constexpr std::size_t kMostClients = 64;  // a server has at most 48

// Lines of clients and servers that come and go. A line with other words is news of its server's state.
constexpr std::string_view kUsual[] = {"Received new client request",
                                       "Worker created",
                                       "Creating worker thread",
                                       "Creating server context",
                                       "Destroy server context",
                                       "Initializing server process",
                                       "Server has started",
                                       "Priority set to",
                                       "Percentage set to",
                                       "is ACTIVE",
                                       "is INACTIVE",
                                       " connected",
                                       " disconnected",
                                       "assuming client exit"};
// What follows a request, in the words of 535 and of later releases.
constexpr std::string_view kAnswers[] = {"Worker created",
                                         "Creating worker thread",
                                         " connected",
                                         "is ACTIVE",
                                         "Failed to create worker",
                                         "Failed to accept new client",
                                         "client creation denied"};

bool contains_any(std::string_view text, std::span<const std::string_view> words) {
  return std::ranges::any_of(words, [text](std::string_view each) { return text.contains(each); });
}

// Splits "[2026-11-27 08:00:01.000 Server  4428] text" into 4428 and the text; 0 if the line begins otherwise.
std::pair<pid_t, std::string_view> server_and_text(std::string_view line) {
  const std::size_t end = line.find("] ");
  if (!line.starts_with('[') || end == std::string_view::npos) return {0, trimmed(line)};
  const std::string_view head = line.substr(1, end - 1);
  const auto pid = whole_number<std::uint32_t>(head.substr(head.find_last_of(' ') + 1));
  return {pid && *pid <= INT32_MAX ? static_cast<pid_t>(*pid) : 0, trimmed(line.substr(end + 2))};
}

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

void LogReader::take(std::string_view line) {
  const auto [pid, text] = server_and_text(line);
  if (servers_.size() >= kMostServers && !servers_.contains(pid)) servers_.clear();
  Server& server = servers_[pid];
  if (text.contains("fatal GPU error")) {
    note_fault(pid, std::nullopt);
    server.after_fault = true;
  }
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  std::optional<pid_t> client;
  if (is_number && server.in_list) client = pid_at(text);
  else if (text.contains("fatal GPU error")) client = pid_after(text, "Client process ");
  else if (server.after_fault && text.contains("INACTIVE"))
    client = pid_after(text, text.contains("{PID: ") ? "{PID: " : "{");
  if (!is_number) server.in_list = server.after_fault && text.contains("have a sticky error");
  if (text.contains("is ACTIVE")) server.after_fault = false;  // it serves again
  if (text.contains("Received new client request") && server.unanswered == 0) server.unanswered = ++requests_;
  if (contains_any(text, kAnswers)) {
    server.unanswered = 0;
    has_answers_ = true;
  }
  news_.unusual = news_.unusual || (!text.empty() && !contains_any(text, kUsual));
  if (client) note_fault(pid, client);
}

// Anything may write into the log, so that its news has a limit.
void LogReader::note_fault(pid_t server, std::optional<pid_t> client) {
  if (news_.faults.size() >= kMostServers && !news_.faults.contains(server)) return;
  std::set<pid_t>& clients = news_.faults[server];
  if (client && clients.size() < kMostClients) clients.insert(*client);
}

LogNews LogReader::news() { return std::exchange(news_, {}); }

void LogReader::forget() {
  servers_.clear();
  news_ = {};
  has_answers_ = false;
}

std::map<pid_t, std::uint64_t> LogReader::unanswered() const {
  std::map<pid_t, std::uint64_t> all;
  for (const auto& [pid, server] : servers_)
    if (has_answers_ && server.unanswered != 0) all[pid] = server.unanswered;
  return all;
}

std::uint64_t ServerLog::open() {
  struct stat named{}, known{};
  const bool is_known = file_ && ::fstat(file_.get(), &known) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
                        named.st_ino == known.st_ino && named.st_dev == known.st_dev;
  if (!is_known) {
    file_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file_ || ::fstat(file_.get(), &known) != 0 || !S_ISREG(known.st_mode)) file_ = {};
    restart_at(0);
  }
  return file_ ? static_cast<std::uint64_t>(known.st_size) : 0;
}

// What follows does not continue what was read before.
void ServerLog::restart_at(std::uint64_t offset) {
  offset_ = offset;
  reader_.forget();
}

void ServerLog::skip() { restart_at(open()); }

LogNews ServerLog::news() {
  const std::uint64_t size = open();
  if (!file_) return {};
  if (size < offset_) restart_at(0);  // it was cut
  const bool lost = size - offset_ > kMostBytes;
  if (lost) restart_at(size - kMostBytes);
  std::string text(size - offset_, '\0');
  const ssize_t count = ::pread(file_.get(), text.data(), text.size(), static_cast<off_t>(offset_));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  // The first line may have lost its beginning, with the server's number.
  std::size_t at = lost ? text.find('\n') + 1 : 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    reader_.take(std::string_view(text).substr(at, end - at));
  offset_ += at;
  return reader_.news();
}

}  // namespace headgate::mps
