#include "power/overriding_manager.hpp"

#include <regex.h>

#include <utility>

#include "base/bounded_command.hpp"
#include "base/utf8.hpp"

namespace headgate::power {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxShown = 300;

bool matches(const std::string& pattern, const std::string& output) {
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return true;
  const bool found = ::regexec(&compiled, output.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

std::string printed(const std::string& output) {
  const std::string text = printable(output, kMaxShown);
  return text.empty() ? "" : ": " + text;
}

class OverridingManager final : public GpuManager {
 public:
  OverridingManager(std::unique_ptr<GpuManager> manager, std::uint32_t gpu, const config::CommandOverrides& overrides)
      : manager_(std::move(manager)), gpu_(gpu), overrides_(overrides) {}

  [[nodiscard]] const GpuIdentity& identity() const override { return manager_->identity(); }

  Result<Reading> perform(const Command& command) override {
    const auto found = overrides_.find(name_of(command.operation));
    if (found == overrides_.end()) {
      // Without an override for both, each clock domain uses its own.
      if (command.operation == Operation::reset_locked_clocks) return reset_each_clocks(*this);
      return manager_->perform(command);
    }
    for (const auto& words : found->second.commands)
      TRY(run_command(filled(words, gpu_, command), found->second.error_pattern, found->second.timeout));
    return Reading{};
  }

 private:
  const std::unique_ptr<GpuManager> manager_;
  const std::uint32_t gpu_;
  const config::CommandOverrides overrides_;
};

}  // namespace

Result<void> run_command(const std::vector<std::string>& words, const std::optional<std::string>& error_pattern,
                         milliseconds timeout) {
  const CommandOutcome outcome = TRY(run_bounded({.words = words, .timeout = timeout}));
  const std::string name = "command '" + printable(words[0]) + "'";
  if (outcome.timed_out)
    return fail(ErrorCode::failed,
                name + " was killed after " + std::to_string(timeout.count()) + " ms" + printed(outcome.output));
  if (outcome.status != 0) return fail(ErrorCode::failed, name + " " + outcome.ending() + printed(outcome.output));
  if (error_pattern && matches(*error_pattern, outcome.output))
    return fail(ErrorCode::failed, name + " printed what its error_pattern matches" + printed(outcome.output));
  return {};
}

std::vector<std::string> filled(const std::vector<std::string>& words, std::uint32_t gpu, const Command& command) {
  std::string watts = watts_text(command.power_limit_mw);
  watts.resize(watts.size() - 2);  // without the unit
  const std::pair<std::string_view, std::string> values[] = {
      {"{gpu_id}", std::to_string(gpu)},
      {"{enabled}", command.enabled ? "1" : "0"},
      {"{power_limit_mw}", std::to_string(command.power_limit_mw)},
      {"{power_limit_w}", watts},
      {"{min_clock_mhz}", std::to_string(command.clocks.min_mhz)},
      {"{max_clock_mhz}", std::to_string(command.clocks.max_mhz)},
  };
  std::vector<std::string> all = words;
  for (std::string& word : all) {
    for (const auto& [name, value] : values) {
      for (auto at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size()))
        word.replace(at, name.size(), value);
    }
  }
  return all;
}

std::unique_ptr<GpuManager> overriding_manager(std::unique_ptr<GpuManager> manager, std::uint32_t gpu,
                                               const config::CommandOverrides& overrides) {
  if (overrides.empty()) return manager;
  return std::make_unique<OverridingManager>(std::move(manager), gpu, overrides);
}

}  // namespace headgate::power
