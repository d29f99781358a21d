#include "cli/support/proc_view.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/whole_number.hpp"

namespace headgate::cli {
namespace {

std::vector<std::string> words_of(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, separator);)
    if (!word.empty()) words.push_back(word);
  return words;
}

std::optional<ProcHiding> hiding_from(const std::string& options) {
  ProcHiding hiding;
  for (const std::string& option : words_of(options, ',')) {
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
    const auto words = words_of(line, ' ');
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
    const auto words = words_of(line, ' ');
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
