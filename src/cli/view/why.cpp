#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/run/run_daemon.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "observe/promises.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// A launch that waits at this moment, and has for seconds.
std::string waiting_text(const snapshot::Share& share, const snapshot::ShareDevice& device) {
  if (device.waiting_ns == 0) return {};
  std::string text = "    a launch has been waiting for " + duration_text(device.waiting_ns);
  if (share.state.starts_with("paused")) return text + ": the share is paused\n";
  if (device.compute_ceiling_ratio > kLowCeiling) return text + "\n";
  return text + ": under " + percent_of(device.compute_ceiling_ratio) +
         " the pause after a kernel is long\n    what helps: a higher compute limit, or shorter kernels\n";
}

// Summarises the delay of all metered launches, including those that did not wait.
std::string delay_text(const snapshot::ShareDevice& device) {
  std::uint64_t all = 0;
  for (const auto& delay : device.launch_delays) all = saturating_add(all, delay.launches);
  if (all == 0) return {};
  std::uint64_t within = 0, longest_ns = 0;
  for (const auto& delay : device.launch_delays) {
    within = saturating_add(within, delay.launches);
    // The 99th percentile, computed without a product that could overflow.
    if (all - within > all / 100) {
      longest_ns = delay.up_to_ns.value_or(longest_ns);
      continue;
    }
    return delay.up_to_ns ? "    99 % of all " + std::to_string(all) + " launches passed within " +
                                duration_text(*delay.up_to_ns) + "\n"
                          : "    more than 1 % of all " + std::to_string(all) + " launches waited longer than " +
                                duration_text(longest_ns) + "\n";
  }
  return {};
}

// "its 40 %, or 90 % while no other share had work on the GPU".
std::string format_ceiling(const snapshot::ShareDevice& device) {
  return "its " + percent_of(device.compute_ceiling_ratio) +
         (device.compute_burst_ratio
              ? ", or " + percent_of(*device.compute_burst_ratio) + " while no other share had work on the GPU"
              : "; not caused by neighbours");
}

// Lists the reasons for waits, longest first; those below 1 % of the total are left out.
std::string reasons_text(const snapshot::ShareDevice& device) {
  // A ceiling of 100 % limits nothing: the wait was for the share's own work.
  const std::uint64_t at_limit_ns = device.compute_ceiling_ratio >= 1 ? 0 : device.waited_ceiling_ns;
  std::vector<std::pair<std::uint64_t, std::string>> reasons = {
      {at_limit_ns, "the share had used " + format_ceiling(device)},
      {device.waited_turn_ns, "other shares had the GPU, and the share waited for its turn"},
      {saturating_add(device.waited_work_ns, device.waited_ceiling_ns - at_limit_ns),
       "the GPU was not done with what the same process had sent before"},
      {device.waited_pause_ns, "the share was paused"},
  };
  std::uint64_t all = 0;
  for (const auto& reason : reasons) all = saturating_add(all, reason.first);
  std::erase_if(reasons, [all](const auto& reason) { return reason.first <= all / 100; });
  std::ranges::stable_sort(reasons, std::greater{}, [](const auto& reason) { return reason.first; });
  std::string text;
  for (const auto& [waited_ns, words] : reasons)
    text += "    reason" + (reasons.size() > 1 ? ", for " + duration_text(waited_ns) : "") + ": " + words + "\n";
  return text;
}

// Says whether the promise was kept in the last 10 s, and if not, why.
std::string promise_text(const snapshot::Share& share, const snapshot::ShareDevice& device) {
  if (device.compute_guarantee_ratio == 0 || share.overcommit || !device.had_ratio) return {};
  return "  in the last 10 s: " + format_promise(share, device) + "\n" +
         (device.short_cause.empty() ? "" : "    reason: " + harmless(device.short_cause) + "\n");
}

std::string throttle_text(const snapshot::Share& share, const snapshot::ShareDevice& device) {
  const std::string waiting = waiting_text(share, device);
  std::string text =
      "  compute: " +
      (device.compute_ceiling_ratio >= 1 ? "no limit" : "limit " + percent_of(device.compute_ceiling_ratio)) +
      (device.metered ? "; the GPU was held for " + duration_text(device.held_ns) : "; its GPU time is not measured");
  if (device.estimated_ns > 0) text += " (" + duration_text(device.estimated_ns) + " of it estimated)";
  if (device.throttled_launches == 0) {
    // A launch that still waits is not counted in throttled_launches, but its time is.
    if (device.throttled_ns > 0)
      return text + "\n    launches wait, for " + duration_text(device.throttled_ns) + " in all so far\n" +
             reasons_text(device) + waiting;
    return text + (waiting.empty() && !share.state.starts_with("paused") ? "; no launch had to wait\n" : "\n") +
           waiting;
  }
  text += "\n    " + std::to_string(device.throttled_launches) +
          (device.throttled_launches == 1 ? " launch" : " launches") + " waited " + duration_text(device.throttled_ns) +
          " in all, the last at " + clock_text(device.last_throttle_unix_ns) + "\n" + delay_text(device) +
          reasons_text(device);
  if (device.passed_in_debt > 0)
    text += "    " + std::to_string(device.passed_in_debt) +
            " of them went on after 20 ms all the same: earlier work was unfinished\n";
  return text + waiting;
}

// If kernels of several shares run at once, there are no turns, and time held is not exclusive.
std::string mps_text(const NodeSnapshot& snapshot, const snapshot::ShareDevice& device) {
  const snapshot::Gpu* const gpu = find_gpu(snapshot.now, device.uuid);
  if (gpu == nullptr || gpu->mps_clients == 0) return {};
  return "  MPS: " + std::to_string(gpu->mps_clients) +
         (gpu->mps_clients == 1 ? " program of a share is a client" : " programs of shares are clients") +
         " of an MPS server on this GPU: kernels of\n    several shares run at once, and its policy is " +
         gpu->policy_in_force + " for as long" +
         (gpu->policy == gpu->policy_in_force ? "\n" : " (else " + gpu->policy + ")\n") +
         (device.sm_ratio && device.compute_ceiling_ratio < 1
              ? "    the share's programs have " + percent_of(*device.sm_ratio) +
                    " of its SMs together by their thread percentages,\n    and what the compute limit leaves beside "
                    "that of the time\n"
              : "");
}

// Returns what went wrong with the share's MPS server in the last day, oldest first.
std::vector<snapshot::Event> mps_trouble(const NodeSnapshot& snapshot, const snapshot::Share& share,
                                         const snapshot::ShareDevice& device) {
  static constexpr std::string_view kKinds[] = {"mps.fault", "mps.wedged", "mps.died", "mps.failed", "mps.queued"};
  std::vector<snapshot::Event> recent;
  if (share.isolation != "mps") return recent;
  const std::uint32_t owner = share.mps_users == "all" ? 0 : share.owner_uid;
  std::ranges::copy_if(snapshot.events, std::back_inserter(recent), [&](const snapshot::Event& event) {
    return event.uuid == device.uuid && event.owner_uid == owner &&
           event.unix_ns + kRecentNs >= snapshot.now.taken_unix_ns &&
           std::ranges::find(kKinds, event.kind) != std::end(kKinds);
  });
  return recent;
}

std::string mps_trouble_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                             const snapshot::ShareDevice& device) {
  const auto recent = mps_trouble(snapshot, share, device);
  if (recent.empty()) return {};
  return "  MPS: trouble " + times(recent.size()) + " in the last day, last at " + clock_text(recent.back().unix_ns) +
         "\n    reason: " + harmless(recent.back().text) + "\n    all of them: headgate events --kind mps\n";
}

// Returns the denials of the last day, oldest first.
std::vector<snapshot::Event> denials_of(const NodeSnapshot& snapshot, const std::string& share, std::string_view kind) {
  std::vector<snapshot::Event> recent;
  std::ranges::copy_if(snapshot.events, std::back_inserter(recent), [&](const snapshot::Event& event) {
    return event.share == share && event.kind == kind && event.unix_ns + kRecentNs >= snapshot.now.taken_unix_ns;
  });
  return recent;
}

// An XID reports a fault of the GPU or of a kernel; programs running then may get errors from every later call.
std::string xid_text(const NodeSnapshot& snapshot, const snapshot::ShareDevice& device) {
  const snapshot::Gpu* const gpu = find_gpu(snapshot.now, device.uuid);
  if (gpu == nullptr || gpu->xids.empty()) return {};
  const auto fault = [](const auto& xid) { return std::to_string(xid.xid) + " (" + times(xid.count) + ")"; };
  return "  faults: the GPU has reported XID " + joined(gpu->xids, ", ", fault) +
         " since headgated started: a program that a fault hit gets errors until it\n    is restarted\n"
         "    when: headgate events --kind gpu.xid\n";
}

std::string frozen_text(const snapshot::Share& share, const snapshot::ShareDevice& device) {
  if (share.frozen_processes == 0) return {};
  return "  " + std::to_string(share.frozen_processes) + " of its " + programs_text(share.processes) +
         (share.frozen_processes == 1 ? " is" : " are") + " frozen (idle), with " +
         bytes_text(device.memory_frozen_bytes) + " on the host instead of this GPU: the next call brings it back\n";
}

// Says that the audit froze the process, and how to resume it.
std::string freeze_text(const snapshot::Process& process) {
  std::string text;
  for (const auto& sentence : format_freeze(process)) text += (text.empty() ? "" : "    ") + harmless(sentence) + "\n";
  return text;
}

// Lists programs of the share that the audit found bypassing its limits.
std::string found_text(const NodeSnapshot& snapshot, const snapshot::Share& share) {
  std::string text;
  for (const auto& process : snapshot.now.processes) {
    if (process.share != share.name) continue;
    if (!process.finding.empty())
      text += "  bypassed: " + harmless(process.finding) + "\n    what helps: to end it (headgate ps)\n";
    if (process.freeze) text += "  process " + std::to_string(shown_pid(process)) + " is " + freeze_text(process);
  }
  return text;
}

// Returns the processes that wait in cuInit for the scheduler.
std::vector<snapshot::Event> asking(const NodeSnapshot& snapshot, const std::string& share) {
  std::map<std::uint32_t, const snapshot::Event*> last;
  for (const auto& event : snapshot.events) {
    if (event.share != share || !event.kind.starts_with("admit.")) continue;
    const snapshot::Event*& of_process = last[event.pid];
    if (of_process == nullptr || of_process->sequence < event.sequence) of_process = &event;
  }
  std::vector<snapshot::Event> waiting;
  for (const auto& of_process : last) {
    const snapshot::Event& event = *of_process.second;
    const auto lives = [&](const snapshot::Process& process) {
      return process.pid == event.pid && process.share == share;
    };
    if (event.kind == kAdmissionKinds[0] && std::ranges::any_of(snapshot.now.processes, lives))
      waiting.push_back(event);
  }
  return waiting;
}

std::string asking_text(const NodeSnapshot& snapshot, const std::string& share) {
  std::string text;
  for (const auto& event : asking(snapshot, share))
    text += "  waits for leave since " + clock_text(event.unix_ns) + ": " + harmless(event.text) + "\n";
  return text;
}

// A waiting allocation repeats its event every ten seconds (node/memory_pressure.hpp). Returns the first and last event
// of the latest such series, if it is recent. Its end has no event except a refusal; otherwise the share's state shows
// it.
std::pair<const snapshot::Event*, const snapshot::Event*> waiting_allocation(const NodeSnapshot& snapshot,
                                                                             const snapshot::Share& share,
                                                                             const std::string& uuid) {
  constexpr std::uint64_t kToldWithinNs = 13'000'000'000;
  std::pair<const snapshot::Event*, const snapshot::Event*> told{};
  if (share.state != "full" && !share.state.starts_with("paused")) return told;
  for (const auto& event : snapshot.events) {
    if (event.share == share.name && event.kind == "memory.refused") told = {};
    if (event.share != share.name || event.uuid != uuid || event.kind != kWaitingAllocation) continue;
    if (told.second == nullptr || event.unix_ns > told.second->unix_ns + kToldWithinNs) told.first = &event;
    told.second = &event;
  }
  const bool old = told.second != nullptr && told.second->unix_ns + kToldWithinNs < snapshot.now.taken_unix_ns;
  return old || share.processes == 0 ? std::pair<const snapshot::Event*, const snapshot::Event*>{} : told;
}

std::string waiting_allocation_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                                    const std::string& uuid) {
  const auto [first, last] = waiting_allocation(snapshot, share, uuid);
  if (first == nullptr) return {};
  const auto ago = [&](const snapshot::Event& event) {
    return duration_text(snapshot.now.taken_unix_ns - std::min(event.unix_ns, snapshot.now.taken_unix_ns));
  };
  return "    an allocation has been waiting for " + ago(*first) + ", last reported " + ago(*last) +
         " ago: " + harmless(last->text) + "\n";
}

// After GPUs were swapped, the share's pages still name the GPU that it was made for.
std::string gone_gpu_text(const NodeSnapshot& snapshot, const snapshot::ShareDevice& device) {
  return is_gpu_of(snapshot.now, device.uuid)
             ? ""
             : "  " + device.uuid +
                   " is not a GPU of this node, or does not answer: programs of the share find no GPU\n    what helps: "
                   "the card back in its slot, or to remove the share and create it on one of those in 'headgate "
                   "status'\n";
}

std::string denial_text(const NodeSnapshot& snapshot, const std::string& share, const Voice& voice) {
  std::string text;
  for (const auto& [kind, words] : kDenials) {
    const auto recent = denials_of(snapshot, share, kind);
    if (recent.empty()) continue;
    text += std::string("  ") + words + ": denied " + times(recent.size()) + " in the last day, last at " +
            clock_text(recent.back().unix_ns) + "\n    reason: " + harmless(recent.back().text, voice) + "\n";
    if (recent.size() > 1) text += "    all of them: headgate events --share " + share + " --kind " + kind + "\n";
  }
  return text;
}

// How much an operator has to do for a share: 3 its promise or its GPU is lost, 2 it was refused, 1 it stands still; 0.
int trouble_of(const NodeSnapshot& snapshot, const snapshot::Share& share) {
  int worst = share.expired || share.frozen_processes > 0 || share.state.starts_with("paused") ||
                      share.state.ends_with("draining") || !asking(snapshot, share.name).empty()
                  ? 1
                  : 0;
  for (const Denial& denial : kDenials)
    if (!denials_of(snapshot, share.name, denial.kind).empty()) worst = 2;
  for (const snapshot::Process& process : snapshot.now.processes)
    if (process.share == share.name && (process.freeze || !process.finding.empty())) worst = 3;
  for (const snapshot::ShareDevice& device : share.devices) {
    const snapshot::Gpu* const gpu = find_gpu(snapshot.now, device.uuid);
    if (device.short_ratio.value_or(0) > observe::kShortRatio || !is_gpu_of(snapshot.now, device.uuid) ||
        (gpu != nullptr && !gpu->xids.empty()))
      worst = 3;
    if (!mps_trouble(snapshot, share, device).empty()) worst = std::max(worst, 2);
    if (device.last_refusal || waiting_allocation(snapshot, share, device.uuid).first != nullptr)
      worst = std::max(worst, 2);
    if (device.waiting_ns > 0) worst = std::max(worst, 1);
  }
  return worst;
}

// "carol on GPU 1: nothing was refused; shares GPU, waits 57 % turn".
std::string quiet_line(const NodeSnapshot& snapshot, const snapshot::Share& share) {
  std::string text;
  for (const snapshot::ShareDevice& device : share.devices)
    text += share.name + " on " + format_gpu(snapshot.now, device.uuid) + ": nothing was refused; " +
            format_state(state_on(snapshot.now, share, device), share.idle_ns) +
            (device.throttled_ratio.value_or(0) < 0.01 ? "" : ", " + format_waits(device)) + "\n";
  return text;
}

std::string shares_why(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares, const Voice& voice) {
  std::string text;
  const std::string stale = staleness(snapshot.now);
  for (const snapshot::Share& share : shares) {
    for (const snapshot::ShareDevice& device : share.devices) {
      // Without the daemon, a simulated node's pages may be in the same directory as a real GPU's.
      const bool simulated =
          snapshot.now.node.simulated && (snapshot.daemon || find_gpu(snapshot.now, device.uuid) != nullptr);
      text += bold("share " + share.name + " on " + format_gpu(snapshot.now, device.uuid) +
                       (is_weak(share.level) ? ", level " + share.level : "") +
                       (simulated ? ", " + warning("SIMULATED", voice) : "") +
                       (stale.empty() ? "" : ", " + warning(stale, voice)),
                   voice) +
              "\n";
      if (share.expired)
        text += "  it has expired: no process may join, it gets no more memory, and it waits for " +
                programs_text(share.processes) + " to end\n    what helps: headgate share extend " + share.name +
                " 1h\n";
      else if (share.state.ends_with("draining"))
        text +=
            "  it is being drained: no process may join, and it gets no more memory\n    what helps: headgate share "
            "resume " +
            share.name + "\n";
      if (share.state.starts_with("paused"))
        text += "  it is paused: its launches wait\n    what helps: headgate share resume " + share.name + "\n";
      text += found_text(snapshot, share) + frozen_text(share, device) + gone_gpu_text(snapshot, device) +
              xid_text(snapshot, device) + refusal_text(snapshot, share, device) + host_text(device) +
              driver_problem_text(share) + waiting_allocation_text(snapshot, share, device.uuid) +
              throttle_text(share, device) + promise_text(share, device) + mps_text(snapshot, device) +
              mps_trouble_text(snapshot, share, device);
    }
    text += asking_text(snapshot, share.name) + denial_text(snapshot, share.name, voice);
  }
  return text.empty() ? stamp(snapshot.now, voice) + "there are no shares\n" : text;
}

}  // namespace

std::string why_text(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares, const Voice& voice) {
  if (shares.size() < 2) return shares_why(snapshot, shares, voice);
  std::vector<snapshot::Share> troubled, others;
  for (const snapshot::Share& share : shares) (trouble_of(snapshot, share) > 0 ? troubled : others).push_back(share);
  std::ranges::stable_sort(troubled, std::greater{},
                           [&](const snapshot::Share& share) { return trouble_of(snapshot, share); });
  std::string text = stamp(snapshot.now, voice) + std::to_string(troubled.size()) + " of " +
                     std::to_string(shares.size()) + " shares had trouble\n";
  if (!troubled.empty()) text += shares_why(snapshot, troubled, voice);
  for (const snapshot::Share& share : others) text += quiet_line(snapshot, share);
  return text;
}

// A share's fields under the names that `why` gives them.
constexpr std::string_view kWhyFields =
    "uuid memory_limit_bytes allocation_refusals=refusals allocation_refusals_device_full=refusals_device_full "
    "allocation_refusals_policy=refusals_policy last_refusal compute_ceiling_ratio compute_burst_ratio "
    "compute_guarantee_ratio had_ratio wanted_ratio short_ratio short_cause metered held_ns estimated_ns throttled_ns "
    "waited_ceiling_ns waited_turn_ns waited_work_ns waited_pause_ns throttled_launches passed_in_debt launch_delays "
    "waiting_ns last_throttle_realtime_ns=last_throttle_unix_ns";
constexpr std::string_view kRefusalFields = "reason asked_bytes used_bytes limit_bytes pid realtime_ns=unix_ns";

std::string why_json(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares) {
  Json all = Json::array();
  for (const snapshot::Share& share : shares) {
    Json one = {{"name", share.name}, {"level", share.level}, {"devices", Json::array()}};
    const Json whole = parse_json(snapshot::to_json(share));
    for (const Json& device : whole["devices"]) {
      Json shown = picked(device, kWhyFields);
      if (!device["last_refusal"].is_null()) shown["last_refusal"] = picked(device["last_refusal"], kRefusalFields);
      if (device["throttled_launches"] == 0) shown["last_throttle_realtime_ns"] = nullptr;
      one["devices"].push_back(std::move(shown));
    }
    one["asking"] = Json::array();
    for (const auto& event : asking(snapshot, share.name))
      one["asking"].push_back({{"realtime_ns", event.unix_ns}, {"pid", event.pid}, {"text", event.text}});
    one["denials"] = Json::array();
    for (const Denial& denial : kDenials)
      for (const auto& event : denials_of(snapshot, share.name, denial.kind))
        one["denials"].push_back(
            {{"kind", event.kind}, {"realtime_ns", event.unix_ns}, {"pid", event.pid}, {"text", event.text}});
    all.push_back(std::move(one));
  }
  return pretty_json(enclosed("headgate.why/v1", "shares", std::move(all), snapshot.now));
}

const snapshot::Process* process_numbered(const snapshot::Snapshot& now, const std::string& word) {
  if (find_share(now, word) != nullptr) return nullptr;
  const auto found = std::ranges::find_if(
      now.processes, [&](const auto& process) { return std::to_string(shown_pid(process)) == word; });
  return found == now.processes.end() ? nullptr : &*found;
}

std::string why_gone(const NodeSnapshot& snapshot, const std::string& share, const std::vector<snapshot::Event>& events,
                     const Voice& voice) {
  if (voice.format == Format::json) {
    const Json json = {{"schema", "headgate.why/v1"},
                       {"simulated", snapshot.now.node.simulated},
                       {"shares", Json::array()},
                       {"gone", {{"name", share}, {"events", parse_json(snapshot::to_json(events))}}}};
    return pretty_json(json);
  }
  std::string text = bold("share " + harmless(share) + " no longer exists" +
                              (snapshot.now.node.simulated ? ", SIMULATED" : "") + "; its last events:",
                          voice) +
                     "\n";
  for (const auto& event : events) text += "  " + event_line(event, snapshot.now.taken_unix_ns, voice);
  return text;
}

std::string why_not_held(const NodeSnapshot& snapshot, const snapshot::Process& process, const Voice& voice) {
  if (voice.format == Format::json) {
    const Json json = {{"schema", "headgate.why/v1"},
                       {"simulated", snapshot.now.node.simulated},
                       {"shares", Json::array()},
                       {"process", {{"pid", process.pid}, {"level", "observe"}, {"finding", process.finding}}}};
    return pretty_json(json);
  }
  std::string text = bold("process " + std::to_string(process.pid) +
                              (process.command.empty() ? "" : " (" + harmless(process.command) + ")") +
                              ", in no share, level observe" + (snapshot.now.node.simulated ? ", SIMULATED" : ""),
                          voice) +
                     "\n  nothing limits it, so headgate refused it nothing and delayed no launch of it\n" +
                     (process.finding.empty() ? "" : "  " + harmless(process.finding) + "\n") +
                     (process.freeze ? "  " + freeze_text(process) : "");
  for (const auto& device : process.devices)
    text += "  " + format_gpu(snapshot.now, device.uuid) +
            (device.driver_bytes ? ": holds " + bytes_text(*device.driver_bytes) : ": in use") + "\n";
  return text + "  to hold it: end it, and start it with headgate run --mem 8GiB --compute 50% -- COMMAND\n";
}

}  // namespace headgate::cli
