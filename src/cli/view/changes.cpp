#include "cli/view/snapshot_source.hpp"

#include <algorithm>
#include <string>

#include "base/units.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

using snapshot::Event;
using snapshot::Snapshot;

Event refusal(const Snapshot& snapshot, const snapshot::Share& share, const snapshot::ShareDevice& device,
              std::uint64_t times) {
  const auto& last = *device.last_refusal;
  std::string text = share.name + " asked for " + bytes_text(last.asked_bytes) + " on " +
                     format_gpu(snapshot, device.uuid) + ", refused: " + bytes_text(last.used_bytes);
  text += last.limit_bytes ? " of " + bytes_text(*last.limit_bytes) + " in use" : " in use";
  if (last.reason == "device_full") text += ", and the card was full";
  if (last.reason == "policy") text += ", and the share was being drained";
  if (times > 1) text += " (" + std::to_string(times) + " times)";
  return {.unix_ns = last.unix_ns,
          .kind = "memory.refused",
          .severity = "warn",
          .share = share.name,
          .uuid = device.uuid,
          .pid = last.pid,
          .uid = share.owner_uid,
          .text = text};
}

void add_refusals(const Snapshot& before, const Snapshot& now, std::vector<Event>& events) {
  for (const auto& share : now.shares) {
    const auto* earlier = find_share(before, share.name);
    for (const auto& device : share.devices) {
      const auto* then = earlier ? find_row(earlier->devices, device.uuid, &snapshot::ShareDevice::uuid) : nullptr;
      const std::uint64_t known = then && then->refusals <= device.refusals ? then->refusals : 0;
      if (device.last_refusal && device.refusals > known)
        events.push_back(refusal(now, share, device, device.refusals - known));
    }
  }
}

std::string format_grant(const Snapshot& snapshot, const snapshot::Share& share) {
  std::string text;
  for (const auto& device : share.devices) {
    text += text.empty() ? ": " : "; ";
    text += format_gpu(snapshot, device.uuid) + ", " +
            (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : "no memory limit");
    if (device.compute_ceiling_ratio < 1) text += ", " + percent_of(device.compute_ceiling_ratio);
  }
  return text;
}

void add_shares(const Snapshot& before, const Snapshot& now, std::vector<Event>& events) {
  const auto tell = [&](const snapshot::Share& share, const char* kind, std::string text) {
    events.push_back({.unix_ns = now.taken_unix_ns,
                      .kind = kind,
                      .severity = "info",
                      .share = share.name,
                      .uid = share.owner_uid,
                      .text = std::move(text)});
  };
  for (const auto& share : now.shares)
    if (!find_share(before, share.name))
      tell(share, "share.created", "share " + share.name + " made" + format_grant(now, share));
  for (const auto& share : before.shares)
    if (!find_share(now, share.name)) tell(share, "share.removed", "share " + share.name + " is gone");
}

void add_processes(const Snapshot& before, const Snapshot& now, std::vector<Event>& events) {
  const auto same = [](const snapshot::Process& a, const snapshot::Process& b) {
    return a.pid == b.pid && a.pid_in_share == b.pid_in_share && a.share == b.share;
  };
  const auto missing = [&](const Snapshot& from, const snapshot::Process& process) {
    return std::ranges::none_of(from.processes, [&](const auto& other) { return same(process, other); });
  };
  const auto tell = [&](const snapshot::Process& process, const char* kind, const char* severity,
                        const std::string& what) {
    const std::string name =
        (process.command.empty() ? "process" : process.command) + " (" + std::to_string(shown_pid(process)) + ")";
    events.push_back({.unix_ns = now.taken_unix_ns,
                      .kind = kind,
                      .severity = severity,
                      .share = process.share,
                      .uuid = process.devices.empty() ? "" : process.devices.front().uuid,
                      .pid = process.pid,
                      .uid = process.uid,
                      .text = name + what});
  };
  for (const auto& process : now.processes) {
    if (!missing(before, process)) continue;
    if (!process.share.empty()) tell(process, "process.started", "info", " started in " + process.share);
    else if (!process.devices.empty())
      tell(process, "audit.outside", "warn",
           " uses " + format_gpu(now, process.devices.front().uuid) + " outside every share");
  }
  for (const auto& process : before.processes)
    if (missing(now, process) && !process.share.empty())
      tell(process, "process.ended", "info", " ended in " + process.share);
}

void add_xids(const Snapshot& before, const Snapshot& now, std::vector<Event>& events) {
  for (const auto& gpu : now.gpus) {
    const auto* then = find_gpu(before, gpu.uuid);
    for (const auto& xid : gpu.xids) {
      const auto* known = then ? find_row(then->xids, xid.xid, &snapshot::XidCount::xid) : nullptr;
      if (xid.count > (known ? known->count : 0))
        events.push_back({.unix_ns = now.taken_unix_ns,
                          .kind = "gpu.xid",
                          .severity = "error",
                          .uuid = gpu.uuid,
                          .text = format_gpu(now, gpu.uuid) + " reports XID " + std::to_string(xid.xid)});
    }
  }
}

void number(std::vector<Event>& events, std::uint64_t last_sequence) {
  std::ranges::stable_sort(events, {}, &Event::unix_ns);
  for (Event& event : events) event.sequence = ++last_sequence;
}

}  // namespace

std::vector<Event> changes(const Snapshot& before, const Snapshot& now, std::uint64_t last_sequence) {
  std::vector<Event> events;
  add_shares(before, now, events);
  add_processes(before, now, events);
  add_refusals(before, now, events);
  add_xids(before, now, events);
  number(events, last_sequence);
  return events;
}

std::vector<Event> remembered(const Snapshot& snapshot) {
  std::vector<Event> events;
  for (const auto& share : snapshot.shares) {
    for (const auto& device : share.devices) {
      if (device.last_refusal) events.push_back(refusal(snapshot, share, device, device.refusals));
      if (device.last_throttle_unix_ns == 0) continue;
      events.push_back({.unix_ns = device.last_throttle_unix_ns,
                        .kind = "compute.throttled",
                        .severity = "info",
                        .share = share.name,
                        .uuid = device.uuid,
                        .uid = share.owner_uid,
                        .text = share.name + " waited for " + format_gpu(snapshot, device.uuid) + ": " +
                                duration_text(device.throttled_ns) + " in all"});
    }
  }
  number(events, 0);
  return events;
}

}  // namespace headgate::cli
