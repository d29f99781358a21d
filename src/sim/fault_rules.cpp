#include "sim/fault_rules.hpp"

#include <algorithm>
#include <optional>

#include "base/whole_number.hpp"
#include "guest/abi/names.hpp"
#include "sim/kernel_faults.hpp"
#include "sim/message.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

constexpr std::string_view kGrammar =
    "FUNCTION:ACTION[:ACTION]... or deviceN:lost or deviceN:xid=CODE, separated by commas; actions fail=CODE, "
    "sticky=CODE, delay_us=N, slow_us=N, "
    "after=N, count=N, device=N, attribute=N";

std::unexpected<Error> refuse(std::string_view rule, std::string reason) {
  return fail(ErrorCode::usage, message("fault rule '", rule.substr(0, 120), "': ", reason), std::string(kGrammar));
}

std::string_view cut(std::string_view& rest, char at) {
  const std::size_t end = rest.find(at);
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return head;
}

std::optional<std::uint64_t> whole(std::string_view digits, std::uint64_t least, std::uint64_t most) {
  const auto value = whole_number(digits);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

bool known(std::string_view name, bool prefix) {
  const auto fits = [&](const abi::Name& one) { return prefix ? one.name.starts_with(name) : one.name == name; };
  return std::ranges::any_of(abi::cuda_names(), fits) || std::ranges::any_of(abi::nvml_names(), fits);
}

struct Action {
  std::string_view key;
  std::uint64_t least, most;
  void (*set)(FaultRule& rule, std::uint64_t value);
};

constexpr Action kActions[] = {
    {"fail", 1, 999, [](FaultRule& rule, std::uint64_t value) { rule.fail_code = static_cast<std::uint32_t>(value); }},
    {"sticky", 214, 719,
     [](FaultRule& rule, std::uint64_t value) {
       rule.fail_code = static_cast<std::uint32_t>(value);
       rule.sticky = true;
     }},
    {"delay_us", 0, 60'000'000, [](FaultRule& rule, std::uint64_t value) { rule.delay_us = value; }},
    {"slow_us", 0, 10'000, [](FaultRule& rule, std::uint64_t value) { rule.slow_us = value; }},
    {"after", 0, UINT64_MAX, [](FaultRule& rule, std::uint64_t value) { rule.after = value; }},
    {"count", 1, UINT64_MAX, [](FaultRule& rule, std::uint64_t value) { rule.count = value; }},
    {"device", 0, kMaxDevices - 1,
     [](FaultRule& rule, std::uint64_t value) { rule.device = static_cast<std::uint32_t>(value); }},
    {"attribute", 1, 200,
     [](FaultRule& rule, std::uint64_t value) { rule.device = static_cast<std::uint32_t>(value); }},
};
constexpr std::uint32_t kNamesADevice = 1U << 6, kNamesAnAttribute = 1U << 7;

constexpr std::uint32_t kDoesSomething = 0b1111, kAnswers = 0b11;  // bits of the table above, from its beginning

Result<bool> apply_action(std::string_view text, std::string_view whole_rule, FaultRule& rule, std::uint32_t& seen) {
  std::string_view value = text;
  const std::string_view key = cut(value, '=');
  const auto* action = std::ranges::find(kActions, key, &Action::key);
  if (action == std::end(kActions)) return refuse(whole_rule, message("'", text, "' is no action"));
  const auto bit = 1U << (action - kActions);
  if ((seen & bit) != 0) return refuse(whole_rule, message(key, " stands twice"));
  seen |= bit;
  const auto number = whole(value, action->least, action->most);
  if (!number)
    return refuse(whole_rule,
                  message(key, " is '", value, "', not a whole number from ", action->least, " to ", action->most));
  action->set(rule, *number);
  return true;
}

Result<bool> parse_rule(std::string_view text, FaultRules& into) {
  std::string_view rest = text;
  std::string_view target = cut(rest, ':');
  if (target.starts_with("device")) {
    const auto index = whole(target.substr(6), 0, kMaxDevices - 1);
    if (!index) return refuse(text, message("'", target, "' is not device0 to device", kMaxDevices - 1));
    if (rest.starts_with("xid=")) {
      const auto code = whole(rest.substr(4), 1, 999);
      if (!code) return refuse(text, message("xid is '", rest.substr(4), "', not a whole number from 1 to 999"));
      into.xids[*index] = static_cast<std::uint32_t>(*code);
      return true;
    }
    if (rest != "lost")
      return refuse(text, message("'", rest, "' is nothing that can befall a device; lost and xid=CODE are"));
    into.lost_devices |= 1U << *index;
    return true;
  }
  FaultRule rule;
  rule.prefix = target.ends_with('*');
  if (rule.prefix) target.remove_suffix(1);
  rule.function = target;
  if (target.empty() && !rule.prefix) return refuse(text, "no function is named");
  if (!known(target, rule.prefix))
    return refuse(text, message("neither the driver nor NVML has '", target, rule.prefix ? "*'" : "'"));
  std::uint32_t seen = 0;
  while (!rest.empty()) TRY(apply_action(cut(rest, ':'), text, rule, seen));
  if ((seen & kDoesSomething) == 0)
    return refuse(text, "it does nothing: fail, sticky, delay_us or slow_us is missing");
  if ((seen & kAnswers) == kAnswers) return refuse(text, "fail and sticky both say what to answer");
  if ((seen & kNamesAnAttribute) != 0 && target != "cuDeviceGetAttribute")
    return refuse(text, "attribute= is for cuDeviceGetAttribute alone");
  if ((seen & kNamesADevice) != 0 && !target.starts_with("nvmlDevice"))
    return refuse(text, "device= is for the functions of NVML that are called for one GPU: nvmlDevice...");
  if (rule.sticky && kernel_fault(rule.fail_code) == nullptr)
    return refuse(text, message("sticky is ", rule.fail_code, ": no kernel ends its context with that"));
  into.rules.push_back(std::move(rule));
  return true;
}

}  // namespace

Result<FaultRules> parse_faults(std::string_view text) {
  FaultRules made;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return made;
  if (text.back() == ',') return refuse(text, "it ends in a comma");
  while (!text.empty()) {
    const std::string_view rule = cut(text, ',');
    if (rule.empty()) return refuse(rule, "it is empty");
    TRY(parse_rule(rule, made));
  }
  return made;
}

}  // namespace headgate::sim
