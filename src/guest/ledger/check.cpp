// Checks what a grant may contain, and a page before any of its values is used.
#include "guest/ledger/check.hpp"

#include <algorithm>
#include <cstring>

#include "guest/bare/text.hpp"
#include "guest/ledger/wake.hpp"

namespace headgate::ledger {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

PageFault check_device(const DeviceGrant& device, std::uint32_t index) {
  if (!is_terminated(device.uuid)) return fault(PageError::unterminated, "uuid", index, 0, index);
  const std::string_view uuid = text_of(device.uuid);
  for (const char c : uuid)
    if (!is_plain(c)) return fault(PageError::bad_uuid, uuid, index, 0, index);
  if (uuid.empty()) return fault(PageError::bad_uuid, uuid, index, 0, index);
  if (device.memory_limit_bytes == 0) return fault(PageError::bad_memory_limit, uuid, 0, 0, index);
  if (device.compute_ceiling_ppm == 0 || device.compute_ceiling_ppm > kWholeGpu)
    return fault(PageError::bad_ceiling, uuid, device.compute_ceiling_ppm, kWholeGpu, index);
  if (device.compute_burst_ppm != 0 &&
      (device.compute_burst_ppm <= device.compute_ceiling_ppm || device.compute_burst_ppm > kWholeGpu))
    return fault(PageError::bad_burst, uuid, device.compute_burst_ppm, device.compute_ceiling_ppm, index);
  if (device.compute_guarantee_ppm > device.compute_ceiling_ppm)
    return fault(PageError::bad_guarantee, uuid, device.compute_guarantee_ppm, device.compute_ceiling_ppm, index);
  if (device.weight == 0 || device.weight > 1000) return fault(PageError::bad_weight, uuid, device.weight, 1000, index);
  if (device.priority_class > 2) return fault(PageError::bad_class, uuid, device.priority_class, 2, index);
  return {};
}

// A page shorter than its header is truncated. A page of another version may have another length, so its header is
// checked first.
PageFault check_page(const void* page, std::size_t bytes, std::uint64_t magic, std::size_t page_bytes,
                     const char* which) {
  if (page == nullptr || bytes < sizeof(PageHeader)) return fault(PageError::truncated, which, bytes, page_bytes);
  PageHeader header;
  std::memcpy(&header, page, sizeof header);
  const PageFault bad = check_header(header, magic, kVersion, which);
  if (bad) return bad;
  if (header.bytes != page_bytes) return fault(PageError::wrong_size, which, header.bytes, page_bytes);
  return bytes == page_bytes
             ? PageFault{}
             : fault(bytes < page_bytes ? PageError::truncated : PageError::wrong_size, which, bytes, page_bytes);
}

PageFault differs(const char* field, const DeviceGrant& device, std::uint32_t index, std::uint64_t is,
                  std::uint64_t wanted) {
  PageFault out = fault(PageError::different_values, "", is, wanted, index);
  bare::Text(out.what).add(field).add(" of ").add(device.uuid);
  return out;
}

PageFault compare_device(const DeviceGrant& is, const DeviceGrant& wanted, std::uint32_t index) {
#define HEADGATE_DEVICE_VALUE(field, shown) \
  if (is.field != wanted.field) return differs(shown, is, index, is.field, wanted.field);
#include "guest/ledger/device_values.def"
  return {};
}

}  // namespace

void put_values(DevicePolicy& to, const DeviceGrant& from) {
#define HEADGATE_DEVICE_VALUE(field, shown) to.field.store(from.field, std::memory_order_relaxed);
#include "guest/ledger/device_values.def"
  to.oversubscribed.store(from.oversubscribed ? 1 : 0, std::memory_order_relaxed);
}

PageFault check_header(const PageHeader& header, std::uint64_t magic, std::uint32_t version, const char* which) {
  if (header.magic != magic) return fault(PageError::wrong_magic, which, header.magic, magic);
  if (header.version > version) return fault(PageError::pages_newer, which, header.version, version);
  if (header.version < version) return fault(PageError::pages_older, which, header.version, version);
  return {};
}

bool is_share_name(std::string_view name) {
  if (name.empty() || name.size() >= kNameBytes || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_plain(c) || c == '.'; });
}

PageFault check_grant(const ShareGrant& grant) {
  if (!is_terminated(grant.name)) return fault(PageError::unterminated, "name");
  if (!is_share_name(text_of(grant.name))) return fault(PageError::bad_name, text_of(grant.name));
  if (grant.device_count == 0 || grant.device_count > kMaxDevices)
    return fault(PageError::bad_device_count, text_of(grant.name), grant.device_count, kMaxDevices);
  if (grant.level > Level::mig)
    return fault(PageError::bad_level, text_of(grant.name), static_cast<std::uint32_t>(grant.level), 4);
  if (grant.fail_policy > FailPolicy::closed)
    return fault(PageError::bad_fail_policy, text_of(grant.name), static_cast<std::uint32_t>(grant.fail_policy), 1);
  for (std::uint32_t i = 0; i < grant.device_count; ++i) {
    if (const PageFault bad = check_device(grant.devices[i], i)) return bad;
    for (std::uint32_t j = 0; j < i; ++j)
      if (text_of(grant.devices[i].uuid) == text_of(grant.devices[j].uuid))
        return fault(PageError::duplicate_uuid, text_of(grant.devices[i].uuid), i, j, i);
  }
  return {};
}

namespace {

// Copies the values unchecked.
ShareGrant copy_of(const PolicyPage& policy) {
  ShareGrant out;
  std::memcpy(out.name, policy.share, sizeof out.name);
  out.device_count = policy.device_count;
  out.level = policy.level;
  out.fail_policy = policy.fail_policy;
  for (std::uint32_t i = 0; i < std::min(out.device_count, kMaxDevices); ++i) {
    const DevicePolicy& from = policy.devices[i];
    DeviceGrant& to = out.devices[i];
    std::memcpy(to.uuid, from.uuid, sizeof to.uuid);
#define HEADGATE_DEVICE_VALUE(field, shown) to.field = from.field.load(std::memory_order_relaxed);
#include "guest/ledger/device_values.def"
    to.oversubscribed = from.oversubscribed.load(std::memory_order_relaxed) != 0;
  }
  return out;
}

}  // namespace

// The pages were checked when they were mapped, but may have been overwritten since.
ShareGrant grant_of(const PolicyPage& policy) {
  ShareGrant out = copy_of(policy);
  out.name[sizeof out.name - 1] = '\0';
  out.device_count = std::min(out.device_count, kMaxDevices);
  for (DeviceGrant& device : out.devices) device.uuid[sizeof device.uuid - 1] = '\0';
  return out;
}

PageFault check_pages(const PolicyPage* policy, std::size_t policy_bytes, const UsagePage* usage,
                      std::size_t usage_bytes) {
  if (const PageFault bad = check_page(policy, policy_bytes, kPolicyMagic, sizeof(PolicyPage), "policy")) return bad;
  if (const PageFault bad = check_page(usage, usage_bytes, kUsageMagic, sizeof(UsagePage), "usage")) return bad;
  if (const PageFault bad = check_grant(copy_of(*policy))) return bad;
  if (usage->slot_count != kMaxSlots) return fault(PageError::bad_slot_count, "usage", usage->slot_count, kMaxSlots);
  if (usage->device_count != policy->device_count)
    return fault(PageError::pages_disagree, "device count", usage->device_count, policy->device_count);
  if (usage->generation != policy->generation)
    return fault(PageError::pages_disagree, "generation", usage->generation, policy->generation);
  return {};
}

PageFault compare(const ShareGrant& is, const ShareGrant& wanted) {
  if (is.device_count != wanted.device_count)
    return fault(PageError::different_values, "number of GPUs", is.device_count, wanted.device_count);
  if (is.level != wanted.level)
    return fault(PageError::different_values, "level", static_cast<std::uint32_t>(is.level),
                 static_cast<std::uint32_t>(wanted.level));
  if (is.fail_policy != wanted.fail_policy)
    return fault(PageError::different_values, "fail policy", static_cast<std::uint32_t>(is.fail_policy),
                 static_cast<std::uint32_t>(wanted.fail_policy));
  for (std::uint32_t i = 0; i < std::min(wanted.device_count, kMaxDevices); ++i) {
    const DeviceGrant* match = nullptr;
    std::uint32_t index = 0;
    for (std::uint32_t j = 0; j < std::min(is.device_count, kMaxDevices); ++j)
      if (text_of(is.devices[j].uuid) == text_of(wanted.devices[i].uuid)) match = &is.devices[index = j];
    if (match == nullptr) return fault(PageError::other_devices, text_of(wanted.devices[i].uuid), 0, 0, i);
    if (const PageFault bad = compare_device(*match, wanted.devices[i], index)) return bad;
  }
  return {};
}

std::uint32_t find_device(const PolicyPage& policy, const char* uuid) {
  for (std::uint32_t i = 0; i < std::min(policy.device_count, kMaxDevices); ++i)
    if (text_of(policy.devices[i].uuid) == std::string_view(uuid)) return i;
  return kMaxDevices;
}

PageFault set_limits(PolicyPage& policy, std::uint32_t device, const DeviceGrant& grant) {
  if (device >= std::min(policy.device_count, kMaxDevices))
    return fault(PageError::bad_device_count, text_of(policy.share), device, policy.device_count, device);
  if (const PageFault bad = check_device(grant, device)) return bad;
  DevicePolicy& to = policy.devices[device];
  put_values(to, grant);
  // Last: a limiter that sees the new epoch sees the new values.
  to.gate_epoch.fetch_add(1, std::memory_order_release);
  // Waiters at the gate still use the old values.
  wake(to.gate_epoch);
  return {};
}

namespace {

// Last: a limiter that sees the new epoch sees the new values.
void announce(PolicyPage& policy) {
  policy.command_epoch.fetch_add(1, std::memory_order_release);
  wake(policy.command_epoch, kOneOfEach);
}

// Makes launches look again; those waiting at a gate do so at once.
void open_looks(PolicyPage& policy) {
  announce(policy);
  for (std::uint32_t i = 0; i < std::min(policy.device_count, kMaxDevices); ++i) {
    policy.devices[i].gate_epoch.fetch_add(1, std::memory_order_release);
    wake(policy.devices[i].gate_epoch);
  }
}

}  // namespace

void ask_reclaim(PolicyPage& policy) {
  policy.reclaims.fetch_add(1, std::memory_order_relaxed);
  announce(policy);
}

void set_command(PolicyPage& policy, Command command) {
  policy.command.store(command, std::memory_order_relaxed);
  open_looks(policy);
}

bool is_draining(const PolicyPage& policy) {
  return says(policy.command.load(std::memory_order_acquire), Command::drain);
}

bool is_paused(const PolicyPage& policy) {
  return says(policy.command.load(std::memory_order_acquire), Command::pause);
}

void set_value(PolicyPage& policy, std::atomic<std::uint32_t> PolicyPage::* value, std::uint32_t to) {
  if ((policy.*value).exchange(to, std::memory_order_relaxed) != to) open_looks(policy);
}

}  // namespace headgate::ledger
