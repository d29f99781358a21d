#include "power/overriding_manager.hpp"

#include <regex.h>
#include <sys/wait.h>

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

  Result<void> set_persistence_mode(bool enabled) override {
    return write({.operation = Operation::set_persistence_mode, .enabled = enabled});
  }
  Result<void> set_power_limit(std::uint32_t limit_mw) override {
    return write({.operation = Operation::set_power_limit, .power_limit_mw = limit_mw});
  }
  Result<void> set_gpu_locked_clocks(ClockRange clocks) override {
    return write({.operation = Operation::set_gpu_locked_clocks, .clocks = clocks});
  }
  Result<void> set_mem_locked_clocks(ClockRange clocks) override {
    return write({.operation = Operation::set_mem_locked_clocks, .clocks = clocks});
  }
  Result<void> reset_gpu_locked_clocks() override { return write({.operation = Operation::reset_gpu_locked_clocks}); }
  Result<void> reset_mem_locked_clocks() override { return write({.operation = Operation::reset_mem_locked_clocks}); }
  Result<void> reset_locked_clocks() override {
    // Without an override for both, each clock domain uses its own.
    if (!overrides_.contains(name_of(Operation::reset_locked_clocks))) return GpuManager::reset_locked_clocks();
    return write({.operation = Operation::reset_locked_clocks});
  }

  Result<void> set_compute_mode(std::uint32_t mode) override { return manager_->set_compute_mode(mode); }

  Result<void> set_time_slice(std::uint32_t length) override { return manager_->set_time_slice(length); }

  Result<std::uint32_t> instant_power_mw() override { return manager_->instant_power_mw(); }
  Result<std::uint64_t> total_energy_mj() override { return manager_->total_energy_mj(); }
  Result<std::uint32_t> power_limit_mw() override { return manager_->power_limit_mw(); }
  Result<PowerRange> power_limit_range() override { return manager_->power_limit_range(); }
  Result<bool> persistence_mode() override { return manager_->persistence_mode(); }
  Result<std::uint32_t> compute_mode() override { return manager_->compute_mode(); }
  Result<std::uint32_t> time_slice() override { return manager_->time_slice(); }

 private:
  Result<void> write(const Command& command) {
    const auto found = overrides_.find(name_of(command.operation));
    if (found == overrides_.end()) {
      const auto done = perform(command, *manager_);
      return done ? Result<void>{} : std::unexpected(done.error());
    }
    for (const auto& words : found->second.commands) {
      if (auto run = run_command(filled(words, gpu_, command), found->second.error_pattern, found->second.timeout);
          !run)
        return run;
    }
    return {};
  }

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
  if (WIFSIGNALED(outcome.status))
    return fail(ErrorCode::failed,
                name + " ended by signal " + std::to_string(WTERMSIG(outcome.status)) + printed(outcome.output));
  if (WEXITSTATUS(outcome.status) != 0)
    return fail(ErrorCode::failed,
                name + " ended with status " + std::to_string(WEXITSTATUS(outcome.status)) + printed(outcome.output));
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
