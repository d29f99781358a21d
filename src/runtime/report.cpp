#include "runtime/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/unique_fd.hpp"
#include "base/utf8.hpp"
#include "base/whole_file.hpp"

namespace headgate::runtime {
namespace {

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string sentence(const Error& error) {
  return printable("headgate: " + error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"));
}

std::string log_line(Severity severity, std::string_view message, std::string_view time) {
  const nlohmann::ordered_json line = {
      {"level", severity == Severity::error ? "error" : "warning"}, {"msg", message}, {"time", time}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void report(const Arguments& arguments, Severity severity, const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  if (arguments.log.empty()) return;
  // O_NONBLOCK, because the log may be a pipe, which must not block the container's start.
  const UniqueFd log(::open(arguments.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!log) return;
  const std::string line = arguments.log_is_json || severity == Severity::error
                               ? log_line(severity, message, time_now())
                               : "level=warning msg=" + nlohmann::ordered_json(message).dump() + "\n";
  static_cast<void>(write_all(log.get(), line));
}

}  // namespace headgate::runtime
