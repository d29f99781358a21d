#include "node/share_text.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "base/user_name.hpp"
#include "node/share_request.hpp"

namespace headgate::node {
namespace {

class Changes {
 public:
  void add(const std::string& key, const std::string& before, const std::string& after) {
    if (before != after) text_ += (text_.empty() ? "" : ", ") + key + " " + before + " -> " + after;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Returns the command's option for an attribute, without its dashes: "freeze-after".
std::string option_of(std::string_view key) {
  std::string option(key);
  std::ranges::replace(option, '_', '-');
  return option;
}

// Formats a time as a request would give it: "8h", "90s".
std::string time_text(std::optional<std::chrono::seconds> time) {
  if (!time) return "none";
  const auto count = time->count();
  for (const auto& [unit, seconds] : {std::pair{'d', 86'400}, {'h', 3'600}, {'m', 60}})
    if (count % seconds == 0) return std::to_string(count / seconds) + unit;
  return std::to_string(count) + "s";
}

std::string oom_text(const tenancy::Share& share) {
  return share.oom_wait ? "wait=" + time_text(share.oom_wait) : "fail";
}

std::string names_text(const std::vector<std::uint32_t>& ids, std::string (*name)(std::uint32_t)) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ids.size(), kShown); ++i) text += (i == 0 ? "" : " and ") + name(ids[i]);
  if (ids.size() > kShown) text += " and " + std::to_string(ids.size() - kShown) + " more";
  return text.empty() ? "none" : text;
}

std::string device_changes(const tenancy::DeviceShare& before, const tenancy::DeviceShare& after) {
  const auto memory = [](const tenancy::DeviceShare& device) {
    return device.memory_limit_bytes ? exact_bytes_text(*device.memory_limit_bytes) : "none";
  };
  const auto host = [](const tenancy::DeviceShare& device) {
    return device.host_limit_bytes > 0 ? exact_bytes_text(device.host_limit_bytes) : "none";
  };
  const auto compute = [](const tenancy::DeviceShare& device) {
    return device.guarantee_ppm > 0 ? percent_text(device.guarantee_ppm) : "none";
  };
  Changes changes;
  changes.add("mem", memory(before), memory(after));
  changes.add("host-mem", host(before), host(after));
  changes.add("compute", compute(before), compute(after));
  changes.add("ceiling", percent_text(before.ceiling_ppm), percent_text(after.ceiling_ppm));
  changes.add("weight", std::to_string(before.weight), std::to_string(after.weight));
  changes.add("class", std::string(tenancy::class_word(before.priority_class)),
              std::string(tenancy::class_word(after.priority_class)));
  return changes.text();
}

// Changes that are the same on all GPUs are listed once.
std::string all_device_changes(const tenancy::Share& before, const tenancy::Share& after) {
  std::vector<std::string> of_each;
  for (const auto& device : after.devices) {
    const tenancy::DeviceShare* const former = device_on(before, device.uuid);
    of_each.push_back(former == nullptr ? "" : device_changes(*former, device));
  }
  if (std::ranges::adjacent_find(of_each, std::ranges::not_equal_to()) == of_each.end())
    return of_each.empty() ? "" : of_each.front();
  std::string text;
  for (std::size_t i = 0; i < of_each.size(); ++i)
    if (!of_each[i].empty())
      text += (text.empty() ? "" : ", ") + of_each[i] + " on " + after.devices[i].uuid.substr(0, 12);
  return text;
}

}  // namespace

std::string describe(const tenancy::Share& share) {
  std::string text;
  for (const auto& device : share.devices) {
    const std::string promised = share.overcommit           ? "overcommitted, "
                                 : device.guarantee_ppm > 0 ? percent_text(device.guarantee_ppm) + " promised, "
                                                            : "";
    text += (text.empty() ? "" : "; ") +
            (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : std::string("no memory limit")) +
            (device.host_limit_bytes > 0 ? " and " + bytes_text(device.host_limit_bytes) + " of the host's" : "") +
            ", " + promised + "at most " + percent_text(device.ceiling_ppm) + " on " + device.uuid.substr(0, 12);
  }
  if (share.isolation == tenancy::Isolation::mps) text += ", under MPS";
  if (share.isolation == tenancy::Isolation::timeslice) text += ", in the driver's time slices";
  return text;
}

std::string describe_changes(const tenancy::Share& before, const tenancy::Share& after) {
  Changes changes;
  changes.add("admit", before.admit == tenancy::Admit::ask ? "ask" : "now",
              after.admit == tenancy::Admit::ask ? "ask" : "now");
  changes.add("on-oom", oom_text(before), oom_text(after));
  for (const tenancy::TimeAttribute& time : tenancy::kTimeAttributes)
    changes.add(option_of(time.key), time_text(before.*time.kept), time_text(after.*time.kept));
  changes.add("user", names_text(before.users, user_name), names_text(after.users, user_name));
  changes.add("group", names_text(before.groups, group_name), names_text(after.groups, group_name));
  for (const tenancy::FlagAttribute& flag : tenancy::kFlagAttributes)
    changes.add(option_of(flag.key), before.*flag.kept ? "yes" : "no", after.*flag.kept ? "yes" : "no");
  const std::string of_devices = all_device_changes(before, after);
  return of_devices + (of_devices.empty() || changes.text().empty() ? "" : ", ") + changes.text();
}

std::string describe_changes(const tenancy::Quota& before, const tenancy::Quota& after) {
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : "none"; };
  const auto memory = [](const tenancy::Quota& quota) {
    return quota.memory_bytes ? exact_bytes_text(*quota.memory_bytes) : "none";
  };
  const auto compute = [](const tenancy::Quota& quota) {
    return quota.compute_ppm ? percent_text(*quota.compute_ppm) : "none";
  };
  const auto rank = [](const tenancy::Quota& quota) {
    return quota.highest_class ? std::string(tenancy::class_word(*quota.highest_class)) : "none";
  };
  Changes changes;
  changes.add("mem", memory(before), memory(after));
  changes.add("compute", compute(before), compute(after));
  changes.add("shares", number(before.shares), number(after.shares));
  changes.add("ttl", time_text(before.ttl), time_text(after.ttl));
  changes.add("weight", number(before.weight), number(after.weight));
  changes.add("class", rank(before), rank(after));
  return changes.text();
}

}  // namespace headgate::node
