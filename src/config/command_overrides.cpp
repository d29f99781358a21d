#include "config/command_overrides.hpp"

#include "config/toml.hpp"

#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/joined.hpp"
#include "base/whole_file.hpp"

namespace headgate::config {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::int64_t kMaxTimeoutS = 3600;

struct Overridable {
  std::string_view operation;
  std::vector<std::string_view> placeholders;
};
const std::vector<Overridable>& table() {
  static const std::vector<Overridable> all = {
      {"set_persistence_mode", {"gpu_id", "enabled"}},
      {"set_power_limit", {"gpu_id", "power_limit_mw", "power_limit_w"}},
      {"set_gpu_locked_clocks", {"gpu_id", "min_clock_mhz", "max_clock_mhz"}},
      {"set_mem_locked_clocks", {"gpu_id", "min_clock_mhz", "max_clock_mhz"}},
      {"reset_gpu_locked_clocks", {"gpu_id"}},
      {"reset_mem_locked_clocks", {"gpu_id"}},
      {"reset_locked_clocks", {"gpu_id"}},
  };
  return all;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

// Returns the first placeholder in braces that is not accepted; empty if there is none.
std::string unknown_placeholder(std::string_view text, const std::vector<std::string_view>& accepted) {
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
    const auto close = text.find('}', open);
    const std::string_view name =
        close == std::string_view::npos ? text.substr(open) : text.substr(open + 1, close - open - 1);
    if (std::ranges::find(accepted, name) == accepted.end()) return std::string(name);
  }
  return "";
}

struct TableReader {
  const std::string& file;
  std::string_view operation;

  std::unexpected<Error> refuse(const toml::node& node, const std::string& why, std::string accepted) const {
    return fail(ErrorCode::usage,
                file + ":" + std::to_string(node.source().begin.line) + ": [" + std::string(operation) + "] " + why,
                "accepted: " + std::move(accepted));
  }

  Result<void> take_commands(const toml::node& node, CommandOverride& one) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty())
      return refuse(node, "commands is no list", "commands = [\"nvidia-smi ...\"]");
    const auto accepted = placeholders_of(operation);
    for (const toml::node& entry : *array) {
      const auto* text = entry.as_string();
      auto words = text == nullptr ? std::vector<std::string>{} : words_of(text->get());
      if (words.empty()) return refuse(entry, "has a command that is no text", "a program and its words");
      if (const std::string unknown = unknown_placeholder(text->get(), accepted); !unknown.empty())
        return refuse(entry, "has the unknown placeholder {" + unknown + "}",
                      joined(accepted, ", ", [](std::string_view name) { return "{" + std::string(name) + "}"; }));
      one.commands.push_back(std::move(words));
    }
    return {};
  }

  Result<void> take_pattern(const toml::node& node, CommandOverride& one) const {
    const auto* text = node.as_string();
    regex_t compiled;
    if (text == nullptr || text->get().empty() || text->get().contains('\0') ||
        ::regcomp(&compiled, text->get().c_str(), REG_EXTENDED | REG_NOSUB) != 0)
      return refuse(node, "error_pattern is no regular expression", "a POSIX extended regular expression");
    ::regfree(&compiled);
    one.error_pattern = text->get();
    return {};
  }

  Result<void> take_timeout(const toml::node& node, CommandOverride& one) const {
    const std::int64_t seconds = node.is_integer() ? node.value_or<std::int64_t>(0) : 0;
    if (seconds < 1 || seconds > kMaxTimeoutS) return refuse(node, "timeout_s is no number of seconds", "1 to 3600");
    one.timeout = std::chrono::seconds(seconds);
    return {};
  }

  Result<CommandOverride> read(const toml::table& from) const {
    CommandOverride one;
    for (const auto& [key, node] : from) {
      if (key.str() == "commands") TRY(take_commands(node, one));
      else if (key.str() == "error_pattern") TRY(take_pattern(node, one));
      else if (key.str() == "timeout_s") TRY(take_timeout(node, one));
      else return refuse(node, "has the unknown key " + std::string(key.str()), "commands, error_pattern, timeout_s");
    }
    if (one.commands.empty()) return refuse(from, "has no commands", "commands = [\"nvidia-smi ...\"]");
    return one;
  }
};

}  // namespace

std::vector<std::string_view> placeholders_of(std::string_view operation) {
  const auto found = std::ranges::find(table(), operation, &Overridable::operation);
  return found == table().end() ? std::vector<std::string_view>{} : found->placeholders;
}

Result<CommandOverrides> parse_command_overrides(std::string_view text, const std::string& name) {
  const toml::parse_result result = toml::parse(text, name);
  if (!result)
    return fail(ErrorCode::usage,
                name + ":" + std::to_string(result.error().source().begin.line) + ": " +
                    std::string(result.error().description()),
                "a table for each operation: [set_power_limit], then commands = [\"nvidia-smi ...\"]");
  CommandOverrides overrides;
  for (const auto& [key, node] : result.table()) {
    const TableReader reader{name, key.str()};
    const toml::table* inner = node.as_table();
    if (inner == nullptr || placeholders_of(key.str()).empty()) {
      return reader.refuse(node, "is no table of an operation", joined(table(), ", ", &Overridable::operation));
    }
    overrides[std::string(key.str())] = TRY(reader.read(*inner));
  }
  return overrides;
}

Result<LoadedOverrides> load_command_overrides(const std::string& path) {
  const auto read = read_whole_file(path, kMaxFileBytes);
  if (!read) return fail(read.error().code, "the command overrides " + path + ": " + read.error().message);
  const WholeFile& file = *read;
  const struct stat& facts = file.facts;
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
    return fail(ErrorCode::denied,
                "the command overrides " + path + " belong to uid " + std::to_string(facts.st_uid) +
                    ", and their commands run with the daemon's rights",
                "chown root " + path);
  if ((facts.st_mode & 0002) != 0)
    return fail(ErrorCode::denied, "the command overrides " + path + " may be changed by all users",
                "chmod o-w " + path);
  LoadedOverrides loaded{.overrides = TRY(parse_command_overrides(file.text, path)), .warning = {}};
  if ((facts.st_mode & 0020) != 0) loaded.warning = "the command overrides " + path + " may be changed by their group";
  return loaded;
}

}  // namespace headgate::config
