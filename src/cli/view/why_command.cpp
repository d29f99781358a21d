// `headgate why`: chooses the shares that view/why.cpp explains.
#include <algorithm>
#include <iterator>

#include "base/joined.hpp"
#include "cli/commands.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

// Returns the events of the last day for `why`.
Result<std::vector<snapshot::Event>> told_before(SnapshotSource& source, const snapshot::Snapshot& now) {
  const std::uint64_t since = now.taken_unix_ns - std::min(now.taken_unix_ns, kRecentNs);
  std::vector<std::string> kinds(std::begin(kAdmissionKinds), std::end(kAdmissionKinds));
  for (const Denial& denial : kDenials) kinds.emplace_back(denial.kind);
  kinds.emplace_back(kWaitingAllocation);
  if (std::ranges::any_of(now.shares, [](const auto& share) { return share.isolation == "mps"; }))
    kinds.emplace_back("mps");  // all of the group
  std::vector<snapshot::Event> all;
  for (const std::string& kind : kinds)
    std::ranges::move(TRY(source.events_that({.since_unix_ns = since, .kind = kind})), std::back_inserter(all));
  return all;
}

// Returns the newest events, which show how the share ended; `headgate events --share` has all of them.
Result<std::vector<snapshot::Event>> last_of(SnapshotSource& source, const std::string& share) {
  constexpr std::size_t kMost = 20;
  auto events = TRY(source.events_that({.share = share}));
  if (events.size() > kMost) events.erase(events.begin(), events.end() - kMost);
  return events;
}

// `asked`: a share's name or a process's number; "" for all shares.
Result<int> why(const Call& call, std::string asked) {
  const Voice& voice = call.voice;
  const Chosen source = TRY(choose_source(call));
  NodeSnapshot snapshot = TRY(look(call, source));
  snapshot.events = TRY(told_before(*source.source, snapshot.now));
  if (auto nothing = nothing_to_show(snapshot.no_gpus, snapshot.now, "why"))
    return std::unexpected(*std::move(nothing));
  name_problems(snapshot, voice);
  if (const auto* process = process_numbered(snapshot.now, asked)) {
    if (process->share.empty()) return show(why_not_held(snapshot, *process, voice));
    asked = process->share;
  }
  std::vector<snapshot::Share> chosen;
  std::vector<std::string> names;
  for (const snapshot::Share& share : snapshot.now.shares) {
    const bool meant = share.name == asked;
    if (meant && !share.problem.empty()) return 1;  // the view has shown its problem
    if (share.devices.empty()) continue;
    if (asked.empty() || meant) chosen.push_back(share);
    names.push_back(share.name);
  }
  if (!chosen.empty() || asked.empty())
    return show(voice.format == Format::json ? why_json(snapshot, chosen) : why_text(snapshot, chosen, voice));
  if (snapshot.daemon) {
    const auto told = TRY(last_of(*source.source, asked));
    if (!told.empty()) return show(why_gone(snapshot, asked, told, voice));
  }
  const bool number = asked.find_first_not_of("0123456789") == std::string::npos;
  return fail(ErrorCode::not_found,
              "there is no share '" + harmless(asked) + "'" +
                  (number ? ", and no process " + asked + " in a share or on a GPU here" : ""),
              names.empty() ? "there are no shares" : "shares here: " + joined(names, ", "));
}

}  // namespace

Commands why_commands() {
  return {command<std::string>(
      kLook, "why", "explain refusals and waits of a share or a process",
      [](Options& options, std::string& asked) {
        options.simulated();
        Option& about = options.operand("SHARE|PID", "a share's name or a PID (default: all shares)", asked);
        about.required = false;
        about.completes = ":share";
      },
      why)};
}

}  // namespace headgate::cli
