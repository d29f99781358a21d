#include "power/time_slice_tool.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/bounded_command.hpp"
#include "base/utf8.hpp"
#include "config/power_settings.hpp"

namespace headgate::power {
namespace {

constexpr std::size_t kShownOutput = 300;

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (name == "LD_PRELOAD=" || std::ranges::any_of(more, [&](const auto& one) { return one.starts_with(name); }))
      continue;
    all.emplace_back(text);
  }
  return all;
}

ErrorCode code_of(const std::string& output) {
  if (output.contains("Not Supported") || output.contains("Function Not Found")) return ErrorCode::unsupported;
  return output.contains("Insufficient Permissions") ? ErrorCode::denied : ErrorCode::failed;
}

std::string_view hint_of(ErrorCode code) {
  if (code == ErrorCode::unsupported) return "it needs a GPU and a driver with compute policies";
  return code == ErrorCode::denied ? "the driver lets only root set it: run the daemon as root" : "";
}

}  // namespace

Result<std::string> TimeSliceTool::ask(const std::string& gpu, const std::string& what) const {
  const auto outcome = run_bounded({.words = {options_.program, "compute-policy", "-i", gpu, what},
                                    .environment = environment_with(options_.environment),
                                    .timeout = options_.timeout});
  if (!outcome)
    return fail(ErrorCode::unsupported, "time slice: " + outcome.error().message,
                "install nvidia-smi, or name the program: power.nvidia_smi");
  if (outcome->succeeded()) return outcome->output;
  const std::string what_failed = "time slice: " + printable(options_.program, 80);
  if (outcome->timed_out)
    return fail(ErrorCode::failed,
                what_failed + " did not answer within " + std::to_string(options_.timeout.count()) + " ms");
  const std::string shown = printable(outcome->output, kShownOutput);
  const ErrorCode code = code_of(outcome->output);
  return fail(code, what_failed + " " + outcome->ending() + (shown.empty() ? "" : ": " + shown),
              std::string(hint_of(code)));
}

Result<std::uint32_t> TimeSliceTool::read(const std::string& gpu) const {
  const std::string output = TRY(ask(gpu, "--list"));
  if (const auto length = parse_time_slice(output)) return *length;
  return fail(ErrorCode::failed,
              "time slice: the list of compute policies is not understood: " + printable(output, kShownOutput));
}

Result<void> TimeSliceTool::set(const std::string& gpu, std::uint32_t length) const {
  TRY(ask(gpu, "--set-timeslice=" + std::to_string(length)));
  return {};
}

// A row is "|   0     Timeslice     Default   |".
std::optional<std::uint32_t> parse_time_slice(std::string_view output) {
  std::string text(output);
  std::ranges::transform(text, text.begin(), [](char c) {
    return c == '|' ? ' ' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::optional<std::uint32_t> found;
  std::istringstream lines(text);
  for (std::string line, gpu, name, value; std::getline(lines, line);) {
    if (!(std::istringstream(line) >> gpu >> name >> value) || name != "timeslice") continue;
    const auto length = config::parse_time_slice(value);
    if (!length || found) return std::nullopt;
    found = length;
  }
  return found;
}

}  // namespace headgate::power
