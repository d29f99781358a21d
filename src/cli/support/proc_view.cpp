#include "cli/support/doctor.hpp"

#include <algorithm>
#include <sstream>

#include "base/split.hpp"
#include "base/whole_number.hpp"

namespace headgate::cli {
namespace {

std::optional<ProcHiding> hiding_from(const std::string& options) {
  ProcHiding hiding;
  for (const std::string& option : split(options, ',')) {
    const std::string value = option.substr(option.find('=') + 1);
    // A number before Linux 5.8, a name since.
    if (option.starts_with("hidepid=") && value != "0" && value != "off") {
      hiding.option = option;
      hiding.ptraceable = value == "4" || value == "ptraceable";
    }
    if (option.starts_with("gid=")) hiding.gid = whole_number<gid_t>(value);
  }
  return hiding.option.empty() ? std::nullopt : std::optional(hiding);
}

}  // namespace

std::optional<ProcHiding> proc_hiding(std::string_view mountinfo) {
  std::optional<ProcHiding> uppermost;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    auto words = split(line, ' ');
    std::erase(words, "");
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words[4] != "/proc" || words.end() - dash < 4 || dash[1] != "proc") continue;
    uppermost = hiding_from(dash[3]);
  }
  return uppermost;
}

bool sees_through(const ProcHiding& hiding, std::string_view status) {
  constexpr int kSysPtrace = 19;  // CAP_SYS_PTRACE
  std::istringstream lines{std::string(status)};
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace(line, '\t', ' ');
    auto words = split(line, ' ');
    std::erase(words, "");
    if (words.size() < 2) continue;
    if (words[0] == "CapEff:" && (whole_number<unsigned long long>(words[1], 16).value_or(0) >> kSysPtrace & 1) != 0)
      return true;
    if (hiding.gid && !hiding.ptraceable && (words[0] == "Groups:" || words[0] == "Gid:") &&
        std::any_of(words.begin() + 1, words.end(),
                    [&](const auto& word) { return whole_number<gid_t>(word) == hiding.gid; }))
      return true;
  }
  return false;
}

}  // namespace headgate::cli
