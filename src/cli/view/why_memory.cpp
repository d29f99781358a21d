#include "cli/view/views.hpp"

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

// Names what holds the card's missing memory: programs outside shares, and shares whose limit was lowered below what
// they hold.
std::string full_card_text(const NodeSnapshot& snapshot, const std::string& uuid) {
  const snapshot::Gpu* const gpu = find_gpu(snapshot.now, uuid);
  const bool outside = gpu == nullptr || gpu->memory_unattributed_bytes > 0;
  std::string text, helps;
  if (gpu != nullptr)
    text = "    of the card " + bytes_text(gpu->memory_free_bytes) + " are free now, and " +
           bytes_text(gpu->memory_unattributed_bytes) + " are used outside shares\n";
  if (outside) helps = "to end what uses the card outside its share (headgate ps), or ";
  for (const snapshot::Share& share : snapshot.now.shares) {
    for (const snapshot::ShareDevice& device : share.devices) {
      if (device.uuid != uuid || !device.memory_limit_bytes || device.memory_used_bytes <= *device.memory_limit_bytes)
        continue;
      text += "    the share " + share.name + " holds " + bytes_text(device.memory_used_bytes) +
              ", and its limit is now " + bytes_text(*device.memory_limit_bytes) + "\n";
      helps += "to end programs of " + share.name + " (headgate ps), or ";
    }
  }
  return text + "    what helps: " + helps + "fewer shares on it\n";
}

// Where it was another limit that refused; empty where it is the one of now.
std::string changed_limit_text(const snapshot::ShareDevice& device) {
  if (device.memory_limit_bytes == device.last_refusal->limit_bytes) return {};
  return device.memory_limit_bytes
             ? "    since then the limit was changed to " + exact_bytes_text(*device.memory_limit_bytes)
             : "    since then the limit was taken away";
}

// A size as `--mem` takes it, and not less: "10.4GiB", "300MiB".
std::string size_option(std::uint64_t bytes) {
  if (bytes < kGiB) return std::to_string((bytes + kMiB - 1) / kMiB) + "MiB";
  const std::uint64_t tenths = (bytes / kGiB) * 10 + ((bytes % kGiB) * 10 + kGiB - 1) / kGiB;
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + "GiB";
}

// The command that gives a share so much, and whether the GPU has it.
std::string larger_share_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                              const snapshot::ShareDevice& device, std::uint64_t needed) {
  const std::string size = size_option(needed);
  if (!snapshot.daemon || !share.created) return "--mem " + size;
  const std::string text = "headgate share set " + share.name + " --mem " + size;
  const snapshot::Gpu* const gpu = find_gpu(snapshot.now, device.uuid);
  if (gpu == nullptr || !gpu->memory_uncommitted_bytes) return text;
  return text + "\n    (" + bytes_text(*gpu->memory_uncommitted_bytes) + " of " +
         format_gpu(snapshot.now, device.uuid) + " are in no share)";
}

}  // namespace

std::string times(std::uint64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::string refusal_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                         const snapshot::ShareDevice& device) {
  if (!device.last_refusal)
    return "  memory: nothing was refused; " + bytes_text(device.memory_used_bytes) + " in use" +
           (device.memory_residual_bytes > 0
                ? ", " + bytes_text(device.memory_residual_bytes) + " of it contexts and code"
                : "") +
           "\n    at most " + bytes_text(device.memory_peak_bytes) + " were in use at one time" +
           (device.memory_limit_bytes ? ", limit " + bytes_text(*device.memory_limit_bytes) : ", no limit") + "\n";
  const snapshot::Refusal& last = *device.last_refusal;
  const std::uint64_t limit = last.limit_bytes.value_or(0);
  std::string text = "  memory: refused " + times(device.refusals) + ", last at " + clock_text(last.unix_ns) +
                     ": process " + std::to_string(last.pid) + " asked for " + exact_bytes_text(last.asked_bytes) +
                     "\n";
  if (device.refusals_device_full + device.refusals_policy > 0 && device.refusals > 1)
    text += "    of these " + std::to_string(device.refusals_device_full) + " by the driver, " +
            std::to_string(device.refusals_policy) + " while the share was being drained\n";
  if (last.reason == "policy") return text + "    reason: the share was being drained; its limits were not the cause\n";
  if (last.reason == "device_full") {
    text += "    reason: the driver had no memory left, though the share had: " + bytes_text(last.used_bytes) +
            (last.limit_bytes ? " of " + bytes_text(limit) : "") + " in use\n";
    return text + full_card_text(snapshot, device.uuid);
  }
  const std::uint64_t room = saturating_sub(limit, last.used_bytes);
  const std::string changed = changed_limit_text(device);
  if (room >= last.asked_bytes) {
    // The allocations alone left room: what was missing is measured, not allocated.
    text += "    reason: the share's limit of " + bytes_text(limit) + "; " + bytes_text(last.used_bytes) +
            " were allocated,\n    and contexts and code of its processes held more than " +
            bytes_text(room - last.asked_bytes) + "\n" + changed + (changed.empty() ? "" : "\n") +
            "    what helps: a smaller batch, fewer processes, or a larger share\n";
    return text;
  }
  text += "    reason: the share's limit of " + bytes_text(limit) + ": " + bytes_text(last.used_bytes) + " in use, " +
          bytes_text(room) + " left\n";
  if (const snapshot::Gpu* gpu = find_gpu(snapshot.now, device.uuid))
    text += "    not caused by neighbours: the card has " + bytes_text(gpu->memory_free_bytes) + " free now\n";
  const std::uint64_t needed = saturating_add(last.used_bytes, last.asked_bytes);
  if (!changed.empty()) {
    if (device.memory_limit_bytes.value_or(~0ull) >= needed) return text + changed + ": that would be enough\n";
    text += changed + "\n";
  }
  return text + "    what helps: a smaller batch, or " + larger_share_text(snapshot, share, device, needed) + "\n";
}

std::string host_text(const snapshot::ShareDevice& device) {
  if (device.host_limit_bytes == 0) return {};
  return "  host memory: " + bytes_text(device.host_used_bytes) + " of " + bytes_text(device.host_limit_bytes) +
         " stand in for the GPU's, past the limit or what the card has\n";
}

std::string driver_problem_text(const snapshot::Share& share) {
  if (share.driver_problem.empty()) return {};
  return "  memory: held by the limiter alone; the driver's limit " + share.driver_problem + "\n";
}

std::string driver_limit_text(const snapshot::ShareDevice& device) {
  if (!device.driver_limit_bytes) return {};
  return "the driver holds its memory too: " + bytes_text(*device.driver_limit_bytes) +
         " for each run and container; in use by its count " + bytes_text(device.driver_used_bytes.value_or(0)) + "\n";
}

}  // namespace headgate::cli
