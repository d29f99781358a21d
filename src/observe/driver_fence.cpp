#include "observe/driver_fence.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/run_cgroup.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "observe/audit.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {
namespace {

constexpr int kFirstRelease = 615;
constexpr std::size_t kMaxNotes = 1 << 20;
// In a cgroup of `headgate run`: keeps that command from removing it before its limit is taken away. On kernels with
// the dmem controller the groups around it would keep the soft limit.
constexpr const char* kHolder = "/headgate-limit";

struct Limits {
  std::uint64_t soft = 0, hard = abi::NVML_DEVICE_MEMORY_LIMIT_MAX, used = 0;
  [[nodiscard]] bool none() const { return soft == 0 && hard == abi::NVML_DEVICE_MEMORY_LIMIT_MAX; }
};

Result<abi::nvmlDevice_t> device_of(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                                    const std::string& uuid) {
  const auto gpu = std::ranges::find(gpus, uuid, &snapshot::Gpu::uuid);
  abi::nvmlDevice_t device = nullptr;
  if (gpu == gpus.end()) return fail(ErrorCode::not_found, "GPU " + uuid + " is not there");
  if (const auto result = nvml->nvmlDeviceGetHandleByIndex_v2(gpu->index, &device); !nvml::ok(result))
    return fail(ErrorCode::failed, "GPU " + std::to_string(gpu->index) + ": " + nvml::words(result));
  return device;
}

// A cgroup that never had a limit is answered NOT_SUPPORTED (3) or NOT_FOUND (6) by some releases.
Result<Limits> read_limits(const nvml::Library& nvml, abi::nvmlDevice_t device, const std::string& cgroup) {
  abi::nvmlGetMemoryLimits_v1_t limits{.nameSpace = cgroup.c_str(), .softLimit = 0, .hardLimit = 0, .currentUsed = 0};
  const auto result = nvml->nvmlDeviceGetMemoryLimits_v1(device, &limits);
  if (result == abi::NVML_ERROR_NOT_SUPPORTED || result == abi::NVML_ERROR_NOT_FOUND) return Limits{};
  if (!nvml::ok(result)) return fail(ErrorCode::failed, "cannot be read back: " + nvml::words(result));
  return Limits{limits.softLimit, limits.hardLimit, limits.currentUsed};
}

Result<void> set_limits(const nvml::Library& nvml, abi::nvmlDevice_t device, const std::string& cgroup,
                        std::uint64_t soft, std::uint64_t hard) {
  abi::nvmlSetMemoryLimits_v1_t limits{.nameSpace = cgroup.c_str(), .softLimit = soft, .hardLimit = hard};
  const auto result = nvml->nvmlDeviceSetMemoryLimits_v1(device, &limits);
  if (nvml::ok(result)) return {};
  const bool denied = result == abi::NVML_ERROR_NO_PERMISSION;
  return fail(denied ? ErrorCode::denied : ErrorCode::failed,
              "is refused: " + (denied ? "headgated is not root"
                                : result == abi::NVML_ERROR_NOT_SUPPORTED
                                    ? "not supported (it wants version 2 at /sys/fs/cgroup, and no MIG)"
                                    : nvml::words(result)));
}

bool is_there(const std::string& directory) { return ::access(directory.c_str(), F_OK) == 0; }

bool is_of_run(const std::string& cgroup) {
  return run_cgroup_pid(std::string_view(cgroup).substr(cgroup.find_last_of('/') + 1)).has_value();
}

bool is_occupied(const std::string& cgroup) {
  const auto events = read_whole_file(cgroup + "/cgroup.events", 4096);
  return events && ("\n" + events->text).contains("\npopulated 1");
}

auto find_in(auto& targets, const std::string& uuid, const std::string& cgroup) {
  return std::ranges::find_if(targets,
                              [&](const FenceTarget& each) { return each.uuid == uuid && each.cgroup == cgroup; });
}

std::optional<std::uint64_t> limit_of(const std::vector<LedgerSnapshot>& ledgers, const std::string& share,
                                      const std::string& uuid) {
  for (const LedgerSnapshot& ledger : ledgers) {
    if (ledger.share.name != share) continue;
    const auto device = std::ranges::find(ledger.share.devices, uuid, &snapshot::ShareDevice::uuid);
    if (device != ledger.share.devices.end()) return device->memory_limit_bytes;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t fence_bytes(std::uint64_t limit_bytes) {
  constexpr std::uint64_t kMiB = 1 << 20;
  return saturating_add(limit_bytes, kMiB - 1) / kMiB * kMiB;
}

bool DriverFence::may_offer(const nvml::Library& nvml) {
  const std::string version = nvml.driver_version();
  int release = 0;
  std::from_chars(version.data(), version.data() + version.size(), release);
  return nvml->nvmlDeviceSetMemoryLimits_v1 != nullptr || release >= kFirstRelease;
}

std::vector<Fence> DriverFence::hold(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                                     std::vector<FenceTarget> targets, const std::vector<LedgerSnapshot>& ledgers) {
  const bool lacks = nvml->nvmlDeviceSetMemoryLimits_v1 == nullptr || nvml->nvmlDeviceGetMemoryLimits_v1 == nullptr;
  offered_ = !lacks;
  std::vector<Fence> fences;
  if (lacks && (targets.empty() || !may_offer(nvml))) return fences;
  if (!lacks) {
    keep_occupied(targets, ledgers);
    clear_others(nvml, gpus, targets);
  }
  for (const FenceTarget& target : targets) {
    if (target.share.empty()) continue;
    fences.push_back(lacks ? Fence{.target = target, .problem = "the driver's NVML lacks nvmlDeviceSetMemoryLimits_v1"}
                           : hold_one(nvml, gpus, target));
    // A run may have ended meanwhile.
    if (!fences.back().problem.empty() && !is_there(target.cgroup)) fences.pop_back();
    else tell(fences.back());
  }
  std::erase_if(told_, [&](const auto& one) {
    return std::ranges::find(targets, one.first, &FenceTarget::share) == targets.end();
  });
  return fences;
}

Fence DriverFence::hold_one(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                            const FenceTarget& target) {
  Fence fence{.target = target};
  const auto failed = [&](const std::string& why) { return fence.problem = why, fence; };
  const auto device = device_of(nvml, gpus, target.uuid);
  if (!device) return failed(device.error().message);
  auto now = read_limits(nvml, *device, target.cgroup);
  if (!now) return failed(now.error().message);
  const bool right = now->soft == target.bytes && now->hard == target.bytes;
  // A smaller limit that headgate did not set stays: the driver holds the share to less than it may have.
  const bool others =
      !right && !now->none() && now->hard < target.bytes && !noted_.contains({target.uuid, target.cgroup});
  if (!others && !note(target)) return failed("cannot be noted in " + notes_file_);
  if (!right && !others) {
    const std::string holder = target.cgroup + kHolder;
    if (is_of_run(target.cgroup)) ::mkdir(holder.c_str(), 0755);
    if (auto set = set_limits(nvml, *device, target.cgroup, target.bytes, target.bytes); !set) {
      if (now->none()) ::rmdir(holder.c_str());
      return failed(set.error().message);
    }
    now = read_limits(nvml, *device, target.cgroup);
    if (!now) return failed(now.error().message);
    if (now->soft != target.bytes || now->hard != target.bytes)
      return failed("was set to " + bytes_text(target.bytes) + ", but is read back as " +
                    (now->none() ? "none" : bytes_text(now->hard)));
  }
  fence.holds = true;
  fence.limit_bytes = now->hard;
  fence.used_bytes = now->used;
  return fence;
}

void DriverFence::keep_occupied(std::vector<FenceTarget>& targets, const std::vector<LedgerSnapshot>& ledgers) const {
  for (const auto& [key, share] : noted_) {
    const auto& [uuid, cgroup] = key;
    if (find_in(targets, uuid, cgroup) != targets.end() || !is_occupied(cgroup)) continue;
    if (const auto limit = limit_of(ledgers, share, uuid))
      targets.push_back({.share = share, .uuid = uuid, .cgroup = cgroup, .bytes = fence_bytes(*limit), .pids = {}});
  }
}

void DriverFence::clear_others(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                               const std::vector<FenceTarget>& targets) {
  const std::size_t before = noted_.size();
  std::erase_if(noted_, [&](const auto& noted) {
    const auto& [uuid, cgroup] = noted.first;
    const auto found = find_in(targets, uuid, cgroup);
    if (found != targets.end() && !found->share.empty()) return false;
    if (!is_there(cgroup)) return true;  // its limit went with it
    const auto device = device_of(nvml, gpus, uuid);
    if (!device) return false;
    if (!set_limits(nvml, *device, cgroup, 0, abi::NVML_DEVICE_MEMORY_LIMIT_MAX) && is_there(cgroup)) return false;
    // Where another GPU's limit is left, that one's end does this again. Neither succeeds while a program is in it.
    if (is_of_run(cgroup) && ::rmdir((cgroup + kHolder).c_str()) == 0) ::rmdir(cgroup.c_str());
    return true;
  });
  if (noted_.size() != before) static_cast<void>(write_notes());
}

bool DriverFence::note(const FenceTarget& target) {
  const Key key{target.uuid, target.cgroup};
  const auto known = noted_.find(key);
  if (known != noted_.end() && known->second == target.share) return true;
  noted_[key] = target.share;
  if (write_notes()) return true;
  noted_.erase(key);
  return false;
}

// One line each: GPU, share, cgroup, with spaces between. Only the cgroup may have spaces in it.
void DriverFence::read_notes() {
  const auto file = read_whole_file(notes_file_, kMaxNotes);
  if (!file) return;
  std::istringstream lines(file->text);
  for (std::string line, uuid, share, cgroup; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> uuid >> share && std::getline(words >> std::ws, cgroup) && cgroup.starts_with('/'))
      noted_[{uuid, cgroup}] = share;
  }
}

bool DriverFence::write_notes() const {
  std::string text;
  for (const auto& [key, share] : noted_) text += key.first + " " + share + " " + key.second + "\n";
  return replace_whole_file(notes_file_, text, {.durable = false}).has_value();
}

void DriverFence::tell(const Fence& fence) {
  if (fence.problem.empty() || !told_[fence.target.share].insert(fence.problem).second) return;
  events_->add({.kind = "driver.limit",
                .severity = "warn",
                .share = fence.target.share,
                .uuid = fence.target.uuid,
                .text = "share " + fence.target.share +
                        ": the driver does not enforce its memory limit too: the limit of cgroup " +
                        fence.target.cgroup + " " + fence.problem});
}

std::vector<snapshot::Event> FenceCheck::look(const snapshot::Snapshot& snapshot) {
  std::vector<snapshot::Event> events;
  std::map<std::pair<std::string, std::string>, Case> now;
  for (const snapshot::Share& share : snapshot.shares) {
    const std::uint64_t slack = rules_.slack_bytes * (share.processes + 1ull);
    for (const snapshot::ShareDevice& device : share.devices) {
      const std::uint64_t counted = device.driver_used_bytes.value_or(0);
      if (counted <= saturating_add(device.memory_used_bytes, slack)) continue;
      const auto key = std::pair(share.name, device.uuid);
      const auto before = cases_.find(key);
      Case& one = now[key] = before == cases_.end() ? Case{.looks = 0, .since_ns = snapshot.taken_ns} : before->second;
      ++one.looks;
      if (one.told || one.looks < rules_.looks || snapshot.taken_ns - one.since_ns < rules_.least_ns) continue;
      one.told = true;
      events.push_back({.kind = event_kind(FindingKind::memory),
                        .severity = "warn",
                        .share = share.name,
                        .uuid = device.uuid,
                        .owner_uid = share.owner_uid,
                        .text = "the driver counts " + bytes_text(counted) + format_gpu(snapshot, device.uuid) +
                                " in the cgroups of share " + share.name + ", whose ledger has " +
                                bytes_text(device.memory_used_bytes)});
    }
  }
  cases_ = std::move(now);
  return events;
}

}  // namespace headgate::observe
