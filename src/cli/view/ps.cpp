#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/run/run_request.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

snapshot::ProcessDevice on(const snapshot::Process& process, const std::string& uuid) {
  const auto* found = find_row(process.devices, uuid, &snapshot::ProcessDevice::uuid);
  return found == nullptr ? snapshot::ProcessDevice{} : *found;
}

std::string bytes_or_dash(std::optional<std::uint64_t> bytes) { return bytes ? bytes_text(*bytes) : "-"; }

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string rate_or_dash(const std::optional<double>& ratio) { return ratio ? rate_text(ppm_of(*ratio)) : "-"; }

// The process's own part of the GPU's time. Where the driver does not tell it, the only process of a share has the
// share's.
std::optional<double> busy_of(const snapshot::Share& share, const snapshot::ShareDevice& device,
                              const snapshot::Process& process) {
  const std::optional<double> own = on(process, device.uuid).busy_ratio;
  return share.processes == 1 && device.held_ratio ? device.held_ratio : own;
}

// Calls inside(share, process) for every process of every share, after(share, count) behind the processes of a share,
// and outside(gpu, process) for each process that uses a GPU outside all shares.
template <typename Inside, typename After, typename Outside>
void each_process(const snapshot::Snapshot& now, Inside&& inside, After&& after, Outside&& outside) {
  for (const auto& share : now.shares) {
    std::size_t count = 0;
    for (const auto& process : now.processes) {
      if (process.share != share.name) continue;
      inside(share, process);
      ++count;
    }
    after(share, count);
  }
  for (const auto& gpu : now.gpus)
    for (const auto& process : now.processes)
      if (process.share.empty() && is_on_gpu(process, gpu.uuid)) outside(gpu, process);
}

struct PsOptions {
  std::string user, gpu;  // "" for all
};

Result<Shown> ps_view(NodeSnapshot snapshot, const PsOptions& own, const Voice& voice, bool heading) {
  if (auto nothing = nothing_to_show(snapshot.no_gpus, snapshot.now, "ps")) return std::unexpected(*std::move(nothing));
  std::vector<std::string> uuids;
  if (!own.gpu.empty()) uuids = TRY(choose_uuids("--gpu", own.gpu, snapshot.now));
  snapshot.now = narrowed(std::move(snapshot.now), own.user, uuids);
  // A misspelt user or GPU also gives an empty list; saying that no share has processes would be untrue.
  if (is_table(voice.format) && snapshot.now.processes.empty() && !(own.user + own.gpu).empty())
    return Shown{.text = stamp(snapshot.now, voice) + "no process" +
                         (own.user.empty() ? "" : " of the user " + harmless(own.user)) + " is in a share or on a GPU" +
                         (own.gpu.empty() ? "" : " of --gpu " + harmless(own.gpu)) + "\n"};
  if (is_table(voice.format)) return Shown{.text = ps_text(snapshot, voice)};
  if (voice.format == Format::json) return Shown{.text = ps_json(snapshot)};
  return Shown{.text = TRY(lines(records_of("headgate.process/v1", snapshot.now.processes), origin_of(snapshot.now),
                                 voice, heading))};
}

}  // namespace

std::string ps_text(const NodeSnapshot& snapshot, const Voice& voice) {
  const bool wide = voice.format == Format::wide;
  const bool where =
      wide || std::ranges::any_of(snapshot.now.processes, [](const auto& p) { return !p.where.empty(); });
  std::vector<std::vector<std::string>> rows = {
      {"SHARE", "GPU", "\tPID", "USER", "COMMAND", "\tMEM", "\tBUSY", "STATE"}};
  const auto add = [&](const snapshot::Process& process, std::vector<std::string> row, const std::string& uuid,
                       const std::string& owner, const std::string& level) {
    row[2] = "\t" + std::to_string(shown_pid(process));
    row[3] = or_dash(process.user);
    row[4] = or_dash(process.command);
    if (where) row.push_back(or_dash(process.where));
    if (wide) {
      const std::string in_share = process.pid_in_share ? std::to_string(*process.pid_in_share) : "-";
      row.insert(row.end(),
                 {process.share.empty() ? "observe" : level, "\t" + std::to_string(process.uid), "\t" + in_share,
                  "\t" + bytes_or_dash(on(process, uuid).driver_bytes), owner, uuid, or_dash(process.finding)});
    }
    rows.push_back(std::move(row));
  };
  if (where) rows[0].emplace_back("WHERE");
  if (wide)
    rows[0].insert(rows[0].end(), {"LEVEL", "\tUID", "\tPID IN SHARE", "\tDRIVER'S MEM", "OWNER", "UUID", "FINDING"});
  each_process(
      snapshot.now,
      [&](const snapshot::Share& share, const snapshot::Process& process) {
        for (const auto& device : share.devices) {
          add(process,
              {share.name, gpu_cell(snapshot.now, device.uuid), "", "", "",
               "\t" + bytes_text(on(process, device.uuid).ledger_bytes),
               "\t" + rate_or_dash(busy_of(share, device, process)),
               process.freeze            ? kFrozenState
               : process.finding.empty() ? format_state(share.state, share.idle_ns)
                                         : "bypassed"},
              device.uuid, or_dash(share.owner), share.level);
        }
      },
      [&](const snapshot::Share& share, std::size_t shown) {
        if (shown < 2 || wide) return;
        for (const auto& device : share.devices)
          rows.push_back({share.name, gpu_cell(snapshot.now, device.uuid), "", "", "all " + std::to_string(shown),
                          "\t" + bytes_text(device.memory_used_bytes), "\t" + rate_or_dash(device.held_ratio)});
      },
      [&](const snapshot::Gpu& gpu, const snapshot::Process& process) {
        add(process,
            {"-", std::to_string(gpu.index), "", "", "", "\t" + bytes_or_dash(on(process, gpu.uuid).driver_bytes),
             "\t" + rate_or_dash(on(process, gpu.uuid).busy_ratio), process.freeze ? kFrozenState : "no share"},
            gpu.uuid, "-", "observe");
      });
  const std::string others = format_others(snapshot.now);
  const std::string none =
      others.empty() ? "no process is in a share\n" : "no process of yours is in a share; not shown: " + others + "\n";
  return stamp(snapshot.now, voice) + (rows.size() == 1 ? none : table(rows, voice));
}

std::string ps_json(const NodeSnapshot& snapshot) {
  Json processes = Json::array();
  const auto add = [&](const snapshot::Process& process, const Json& share, const std::string& level, Json devices) {
    const Json freeze =
        process.freeze ? Json{{"cgroup", process.freeze->cgroup}, {"thaw", process.freeze->thaw}} : Json();
    processes.push_back({{"share", share},
                         {"pid", shown_pid(process)},
                         {"user", or_null(process.user)},
                         {"command", or_null(process.command)},
                         {"where", or_null(process.where)},
                         {"level", level},
                         {"freeze", freeze},
                         {"halt", freeze},  // former name, for one release
                         {"devices", std::move(devices)}});
  };
  each_process(
      snapshot.now,
      [&](const snapshot::Share& share, const snapshot::Process& process) {
        Json devices = Json::array();
        for (const auto& device : share.devices) {
          devices.push_back({{"uuid", device.uuid},
                             {"memory_used_bytes", on(process, device.uuid).ledger_bytes},
                             {"share_held_ratio", device.held_ratio ? Json(*device.held_ratio) : Json()}});
        }
        add(process, share.name, share.level, std::move(devices));
      },
      [](const snapshot::Share&, std::size_t) {},
      [&](const snapshot::Gpu& gpu, const snapshot::Process& process) {
        const auto bytes = on(process, gpu.uuid).driver_bytes;
        add(process, nullptr, "observe",
            Json::array({Json{{"uuid", gpu.uuid}, {"memory_used_bytes", bytes ? Json(*bytes) : Json()}}}));
      });
  return pretty_json(enclosed("headgate.ps/v1", "processes", std::move(processes), snapshot.now));
}

snapshot::Snapshot narrowed(snapshot::Snapshot now, const std::string& user, const std::vector<std::string>& uuids) {
  const auto is_other = [&](const std::string& uuid) {
    return !uuids.empty() && std::ranges::find(uuids, uuid) == uuids.end();
  };
  std::erase_if(now.processes, [&](snapshot::Process& process) {
    const bool used = !process.devices.empty();
    std::erase_if(process.devices, [&](const auto& device) { return is_other(device.uuid); });
    return (used && process.devices.empty()) ||
           (!user.empty() && process.user != user && std::to_string(process.uid) != user);
  });
  for (auto& share : now.shares)
    std::erase_if(share.devices, [&](const auto& device) { return is_other(device.uuid); });
  std::erase_if(now.gpus, [&](const auto& gpu) { return is_other(gpu.uuid); });
  return now;
}

Commands ps_commands() {
  return {command<PsOptions>(
      kLook, "ps", "list processes and what they use",
      [](Options& options, PsOptions& own) {
        options.simulated();
        options.interval("time over which rates are measured", "100ms");
        options.watch();
        options.text("--user", "USER", "only this user's processes: a name or a number", own.user);
        options.text("-i,--gpu", "GPUS", "only on these GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0", own.gpu);
        options.lists();
      },
      [](const Call& call, const PsOptions& own) -> Result<int> {
        const auto view = [&own](const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
          return ps_view(snapshot, own, voice, heading);
        };
        return show_view(call, TRY(choose_source(call)), view, true);
      })};
}

}  // namespace headgate::cli
