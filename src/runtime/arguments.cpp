#include "runtime/arguments.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace headgate::runtime {
namespace {

// Options of runc and crun before the command that take the next word. All others stand alone or contain '='.
constexpr std::array<std::string_view, 6> kTakeAWord = {"log",  "log-format", "root",
                                                        "criu", "rootless",   "cgroup-manager"};

struct Option {
  std::string_view name;
  std::optional<std::string_view> value;
};

// Accepts "--log=x", "-log" and "--log": both programs take a single '-' too.
std::optional<Option> option_of(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return std::nullopt;
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return Option{.name = word, .value = std::nullopt};
  return Option{.name = word.substr(0, equals), .value = word.substr(equals + 1)};
}

}  // namespace

Arguments read_arguments(std::span<const std::string> words) {
  Arguments all;
  std::size_t at = 0;
  const auto value = [&](const Option& option) -> std::string {
    if (option.value) return std::string(*option.value);
    return at + 1 < words.size() ? words[++at] : std::string();
  };
  for (; at < words.size(); ++at) {
    const auto option = option_of(words[at]);
    if (!option) break;
    const std::size_t first = at;
    std::string text;
    const bool ours = option->name == "headgate-config";
    if (ours || std::ranges::find(kTakeAWord, option->name) != kTakeAWord.end()) text = value(*option);
    if (option->name == "log") all.log = text;
    if (option->name == "log-format") all.log_is_json = text == "json";
    if (ours) all.configuration = text;
    else all.passed.insert(all.passed.end(), words.begin() + first, words.begin() + std::min(at + 1, words.size()));
  }
  if (at < words.size()) all.command = words[at];
  all.passed.insert(all.passed.end(), words.begin() + at, words.end());
  for (++at; at < words.size(); ++at) {
    const auto option = option_of(words[at]);
    if (option && (option->name == "bundle" || option->name == "b")) all.bundle = value(*option);
  }
  return all;
}

}  // namespace headgate::runtime
