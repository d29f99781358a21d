#include "node/void_promises.hpp"

#include "base/units.hpp"

namespace headgate::node {
namespace {

using schedule::Policy;

bool keeps(Policy policy, const tenancy::DeviceShare& device) {
  if (policy == Policy::priority) return device.priority_class != tenancy::Class::best_effort;
  return policy == Policy::fair;
}

bool is_promised(const tenancy::Share& share, const tenancy::DeviceShare& device) {
  return !share.overcommit && device.guarantee_ppm > 0;
}

}  // namespace

std::vector<VoidPromise> voided_by_policy(std::span<const tenancy::Share> shares, const std::string& uuid,
                                          Policy before, Policy after) {
  std::vector<VoidPromise> all;
  std::size_t on_it = 0;
  for (const tenancy::Share& share : shares) {
    const tenancy::DeviceShare* const device = device_on(share, uuid);
    if (device == nullptr) continue;
    ++on_it;
    if (is_promised(share, *device) && keeps(before, *device) && !keeps(after, *device))
      all.push_back({share.name, uuid, device->guarantee_ppm});
  }
  return on_it > 1 ? all : std::vector<VoidPromise>();
}

std::vector<VoidPromise> voided_by_class(const tenancy::Share* before, const tenancy::Share& wanted,
                                         const PolicyOf& policy) {
  const auto is_void = [](const tenancy::Share& share, const tenancy::DeviceShare& device) {
    return is_promised(share, device) && !keeps(Policy::priority, device);
  };
  std::vector<VoidPromise> all;
  for (const tenancy::DeviceShare& device : wanted.devices) {
    if (policy(device.uuid) != Policy::priority || !is_void(wanted, device)) continue;
    const tenancy::DeviceShare* const had = before == nullptr ? nullptr : device_on(*before, device.uuid);
    if (had == nullptr || !is_void(*before, *had)) all.push_back({wanted.name, device.uuid, device.guarantee_ppm});
  }
  return all;
}

Result<void> need_consent(const std::string& what, const std::vector<VoidPromise>& promises, bool accepted) {
  if (promises.empty() || accepted) return {};
  std::string list;
  for (const VoidPromise& promise : promises)
    list += (list.empty() ? "" : ", ") + promise.share + " (" + percent_text(promise.guarantee_ppm) + " of " +
            promise.uuid.substr(0, 12) + ")";
  return fail(ErrorCode::conflict,
              what + ": this makes " + (promises.size() == 1 ? "a promise void: " : "promises void: ") + list,
              R"(to accept that, send "void_promises": true (headgate: --yes))");
}

}  // namespace headgate::node
