#include "oci/cuda_requirement.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <vector>

#include "base/utf8.hpp"

namespace headgate::oci {
namespace {

// The first driver branch of each CUDA version: NVIDIA's CUDA Toolkit release notes, table "CUDA Toolkit and
// corresponding driver versions".
struct Branch {
  unsigned driver;
  std::string_view cuda;
};
constexpr unsigned kAfterTheTable = 590;
constexpr std::array<Branch, 24> kBranches = {
    {{580, "13.0"}, {575, "12.9"}, {570, "12.8"}, {565, "12.7"}, {560, "12.6"}, {555, "12.5"},
     {550, "12.4"}, {545, "12.3"}, {535, "12.2"}, {530, "12.1"}, {525, "12.0"}, {520, "11.8"},
     {515, "11.7"}, {510, "11.6"}, {495, "11.5"}, {470, "11.4"}, {465, "11.3"}, {460, "11.2"},
     {455, "11.1"}, {450, "11.0"}, {440, "10.2"}, {418, "10.1"}, {410, "10.0"}, {396, "9.2"}}};

// Parses "12.4" to {12, 4}; empty if it is not a version.
std::vector<unsigned> version_parts(std::string_view text) {
  std::vector<unsigned> parts;
  while (true) {
    unsigned part = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc()) return {};
    parts.push_back(part);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return parts;
    if (text[0] != '.') return {};
    text.remove_prefix(1);
  }
}

struct Condition {
  std::string_view subject, comparison, value;
};

std::optional<Condition> read_condition(std::string_view text) {
  const auto at = text.find_first_of("=<>!");
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto end = text.find_first_not_of("=<>!", at);
  if (end == std::string_view::npos) return std::nullopt;
  constexpr std::array<std::string_view, 7> kComparisons = {"=", "==", "!=", "<", "<=", ">", ">="};
  const std::string_view comparison = text.substr(at, end - at);
  if (std::ranges::find(kComparisons, comparison) == kComparisons.end()) return std::nullopt;
  return Condition{.subject = text.substr(0, at), .comparison = comparison, .value = text.substr(end)};
}

// Missing parts count as 0: driver 470.57 is greater than "470".
int compare(std::string_view is, std::string_view wanted) {
  const auto ours = version_parts(is), theirs = version_parts(wanted);
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const unsigned a = i < ours.size() ? ours[i] : 0, b = i < theirs.size() ? theirs[i] : 0;
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

bool holds(int order, std::string_view comparison) {
  if (comparison == "<") return order < 0;
  if (comparison == "<=") return order <= 0;
  if (comparison == ">") return order > 0;
  if (comparison == ">=") return order >= 0;
  return (order == 0) == (comparison != "!=");
}

bool is_met(const Condition& condition, const GpuFacts& facts) {
  if (condition.subject == "brand")
    return facts.brand.empty() || (facts.brand == condition.value) == (condition.comparison != "!=");
  const std::string& is = condition.subject == "cuda"     ? facts.cuda
                          : condition.subject == "driver" ? facts.driver
                                                          : facts.arch;
  return is.empty() || holds(compare(is, condition.value), condition.comparison);
}

std::string describe_need(const Condition& condition, const GpuFacts& facts) {
  const std::string value(condition.value);
  const std::string driver = facts.driver.empty() ? "this driver" : "driver " + facts.driver;
  const bool at_least = condition.comparison == ">=";
  const std::string how = at_least ? " " : " " + std::string(condition.comparison) + " ";
  if (condition.subject == "cuda") return "CUDA" + how + value + ", " + driver + " has " + facts.cuda;
  if (condition.subject == "driver") return "driver" + how + value + ", the node has " + facts.driver;
  if (condition.subject == "arch") return "compute capability" + how + value + ", the GPU has " + facts.arch;
  return "a GPU of brand" + how + value + ", this one is " + facts.brand;
}

// Checks one variable. Reports what its first part lacks, because images name the general case before exceptions.
Result<void> check_one(std::string_view name, std::string_view value, const GpuFacts& facts) {
  std::optional<Condition> missing;
  bool met = false;
  for (const auto part : std::views::split(value, ' ')) {
    std::optional<Condition> first;
    for (const auto each : std::views::split(part, ',')) {
      const std::string_view text(each.begin(), each.end());
      if (text.empty()) continue;
      const auto condition = read_condition(text);
      const std::string_view subject = condition ? condition->subject : "";
      const bool known = subject == "cuda" || subject == "driver" || subject == "arch" || subject == "brand";
      if (!known || (subject != "brand" && version_parts(condition->value).empty()))
        return fail(ErrorCode::usage, std::string(name) + ": '" + printable(text, 80) + "' is no condition",
                    "accepted: cuda, driver, arch or brand, one of = != < <= > >=, and a version; "
                    "NVIDIA_DISABLE_REQUIRE=1 passes it over");
      if (!first && !is_met(*condition, facts)) first = condition;
    }
    if (!first && !part.empty()) met = true;
    if (first && !missing) missing = first;
  }
  if (met || !missing) return {};
  return fail(ErrorCode::unsupported, "the image needs " + describe_need(*missing, facts),
              "use an image for an older CUDA, or a newer driver; NVIDIA_DISABLE_REQUIRE=1 tries it all the same");
}

}  // namespace

std::string cuda_of_driver(std::string_view driver) {
  const auto parts = version_parts(driver);
  if (parts.empty() || parts[0] >= kAfterTheTable) return {};
  const auto found = std::ranges::find_if(kBranches, [&](const Branch& each) { return parts[0] >= each.driver; });
  return found == kBranches.end() ? std::string() : std::string(found->cuda);
}

Result<void> check_requirements(std::span<const std::string> environment, const GpuFacts& facts) {
  constexpr std::string_view kRequire = "NVIDIA_REQUIRE_", kDisable = "NVIDIA_DISABLE_REQUIRE=";
  std::vector<std::pair<std::string_view, std::string_view>> wanted;  // the last entry of a name counts
  bool disabled = false;
  for (const std::string& entry : environment) {
    if (entry.starts_with(kDisable)) {
      const std::string_view value = std::string_view(entry).substr(kDisable.size());
      disabled = value == "1" || value == "true" || value == "TRUE" || value == "True" || value == "t" || value == "T";
    }
    const auto equals = entry.find('=');
    if (!entry.starts_with(kRequire) || equals == std::string::npos) continue;
    const std::string_view name = std::string_view(entry).substr(0, equals),
                           value = std::string_view(entry).substr(equals + 1);
    const auto same = std::ranges::find(wanted, name, [](const auto& each) { return each.first; });
    if (same == wanted.end()) wanted.emplace_back(name, value);
    else same->second = value;
  }
  if (disabled) return {};
  for (const auto& [name, value] : wanted) TRY(check_one(name, value, facts));
  return {};
}

}  // namespace headgate::oci
