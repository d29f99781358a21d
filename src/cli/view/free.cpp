#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/run/run_request.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

Json room_json(const Room& room) {
  return {{"uuid", room.uuid},
          {"index", room.index},
          {"memory_total_bytes", room.memory_total_bytes},
          {"memory_free_bytes", room.memory_free_bytes},
          {"memory_uncommitted_bytes", room.memory_uncommitted_bytes},
          {"compute_uncommitted_ratio", room.compute_uncommitted_ppm / 1e6},
          {"memory_unsold_bytes", room.memory_uncommitted_bytes},  // former names, for one release
          {"compute_unsold_ratio", room.compute_uncommitted_ppm / 1e6},
          {"shares", room.shares}};
}

bool fits(const Room& room, const Fit& fit) {
  const std::uint64_t memory =
      fit.memory_ppm != 0 ? grant::Memory{.ppm = fit.memory_ppm}.on(room.memory_total_bytes) : fit.memory_bytes;
  return !room.uuid.empty() && memory <= std::min(room.memory_free_bytes, room.memory_uncommitted_bytes) &&
         fit.compute_ppm <= room.compute_uncommitted_ppm;
}

// "largest share that fits: 14.1 GiB and 20 % on GPU 0; 36.3 GiB and 100 % on GPU 1".
std::string largest_text(const std::vector<Room>& all) {
  std::string text;
  for (const Room& room : all) {
    if (room.uuid.empty()) continue;
    text += (text.empty() ? "largest share that fits: " : "; ") +
            bytes_text(std::min(room.memory_free_bytes, room.memory_uncommitted_bytes)) + " and " +
            percent_text(room.compute_uncommitted_ppm) + " on GPU " + std::to_string(room.index);
  }
  return text.empty() ? "" : text + "\n";
}

Result<Shown> free_view(const NodeSnapshot& snapshot, const std::optional<Fit>& fit, const Voice& voice, bool heading) {
  if (!snapshot.no_gpus.empty())
    return fail(ErrorCode::unreachable, snapshot.no_gpus, "'headgate free --sim' looks at a simulated node");
  const auto all = rooms(snapshot, fit);
  Shown shown;
  if (is_table(voice.format)) shown.text = free_text(snapshot, all, fit, voice);
  else if (voice.format == Format::json) shown.text = free_json(snapshot, all, fit);
  else shown.text = TRY(lines(free_records(all, fit), origin_of(snapshot.now), voice, heading));
  if (fit && std::ranges::none_of(all, &Room::fits)) shown.status = exit_status(ErrorCode::no_capacity);
  return shown;
}

Result<int> free_command(const Call& call, const std::string& asked) {
  std::optional<Fit> fit;
  if (!asked.empty()) fit = TRY(parse_fit(asked));
  return show_view(call, TRY(choose_source(call)),
                   [fit](const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
                     return free_view(snapshot, fit, voice, heading);
                   });
}

}  // namespace

Result<Fit> parse_fit(const std::string& text) {
  Fit fit;
  const std::size_t comma = text.find(',');
  const auto memory = TRY(memory_option("--fit", text.substr(0, comma)));
  fit.memory_bytes = memory.bytes;
  fit.memory_ppm = memory.ppm;
  if (comma != std::string::npos) fit.compute_ppm = TRY(compute_option("--fit", text.substr(comma + 1)));
  return fit;
}

std::vector<Room> rooms(const NodeSnapshot& snapshot, const std::optional<Fit>& fit) {
  std::vector<Room> all;
  for (const snapshot::Gpu& gpu : snapshot.now.gpus) {
    Room room{.index = gpu.index,
              .uuid = gpu.uuid,
              .model = gpu.model,
              .memory_total_bytes = gpu.memory_total_bytes,
              .memory_free_bytes = gpu.memory_free_bytes};
    std::uint64_t committed = gpu.memory_reserved_bytes, ppm = 0;
    for (const snapshot::Share& share : snapshot.now.shares) {
      // A share without a daemon is not committed while it is unused: its limits return with its next process. A
      // daemon's share is always committed, including those of runs, which have a creation time while they exist.
      if (share.state == "empty" && !share.created && share.created_unix_ns == 0) continue;
      for (const snapshot::ShareDevice& device : share.devices) {
        if (device.uuid != gpu.uuid) continue;
        ++room.shares;
        room.unlimited_shares += !device.memory_limit_bytes;
        const std::uint64_t limit = device.memory_limit_bytes.value_or(device.memory_used_bytes);
        committed = saturating_add(committed, limit);
        // A daemon's commitment holds even while it is away. Class latency and other shares count with their ceiling.
        const bool promised = share.created && device.priority_class != "latency";
        ppm += ppm_of(promised ? device.compute_guarantee_ratio : device.compute_ceiling_ratio);
      }
    }
    // The daemon reports the uncommitted memory; without it, use what no share's limit covers.
    room.memory_uncommitted_bytes =
        gpu.memory_uncommitted_bytes.value_or(saturating_sub(gpu.memory_total_bytes, committed));
    room.compute_uncommitted_ppm = gpu.compute_uncommitted_ratio
                                       ? ppm_of(*gpu.compute_uncommitted_ratio)
                                       : static_cast<std::uint32_t>(saturating_sub(1'000'000, ppm));
    room.fits = fit && fits(room, *fit);
    all.push_back(room);
  }
  return all;
}

std::string free_text(const NodeSnapshot& snapshot, const std::vector<Room>& all, const std::optional<Fit>& fit,
                      const Voice& voice) {
  if (!snapshot.no_gpus.empty()) return snapshot.no_gpus + "\n";
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "MODEL", "\tMEMORY FREE", "\tMEMORY LEFT", "\tTIME LEFT", "\tSHARES"}};
  const bool wide = voice.format == Format::wide;
  if (fit) rows[0].emplace_back("FITS");
  if (wide)
    for (const char* heading : {"\tTOTAL", "\tRESERVED", "PCI", "UUID"}) rows[0].emplace_back(heading);
  for (const Room& room : all) {
    if (room.uuid.empty()) {  // it does not answer: zeros or all free time would look like readings
      rows.push_back({std::to_string(room.index), room.model, "\t-", "\t-", "\t-", "\t-"});
      if (fit) rows.back().emplace_back("no");
      continue;
    }
    rows.push_back({std::to_string(room.index), short_model(room.model), "\t" + bytes_text(room.memory_free_bytes),
                    "\t" + bytes_text(room.memory_uncommitted_bytes), "\t" + percent_text(room.compute_uncommitted_ppm),
                    "\t" + std::to_string(room.shares)});
    if (fit) rows.back().emplace_back(room.fits ? "yes" : "no");
    if (!wide) continue;
    const auto* gpu = find_gpu(snapshot.now, room.uuid);
    rows.back().insert(rows.back().end(), {"\t" + bytes_text(room.memory_total_bytes),
                                           "\t" + (gpu == nullptr ? "-" : bytes_text(gpu->memory_reserved_bytes)),
                                           gpu == nullptr ? "-" : gpu->pci_bus_id, room.uuid});
  }
  std::string text = stamp(snapshot.now, voice) + table(rows, voice) + largest_text(all);
  for (const Room& room : all)
    if (room.unlimited_shares > 0)
      text += "GPU " + std::to_string(room.index) + ": " + std::to_string(room.unlimited_shares) +
              (room.unlimited_shares == 1 ? " share has" : " shares have") +
              " no memory limit; counted is what is used now\n";
  return text;
}

std::string free_json(const NodeSnapshot& snapshot, const std::vector<Room>& all, const std::optional<Fit>& fit) {
  Json json = enclosed("headgate.free/v1", "gpus", Json::array(), snapshot.now);
  if (fit) json["fits"] = Json::array();
  for (const Room& room : all) {
    const Json one = room_json(room);
    json["gpus"].push_back(one);
    if (fit && room.fits) json["fits"].push_back(one);
  }
  return pretty_json(json);
}

Records free_records(const std::vector<Room>& all, const std::optional<Fit>& fit) {
  // The column depends on --fit but is always present, for readers that count columns.
  const auto with_fits = [&](const Room& room) {
    Json json = room_json(room);
    json["fits"] = fit ? Json(room.fits) : Json();
    return compact_json(json);
  };
  Records records{.schema = "headgate.room/v1", .pattern = with_fits({}), .objects = {}};
  for (const Room& room : all) records.objects.push_back(with_fits(room));
  return records;
}

Commands free_commands() {
  return {command<std::string>(
      kLook, "free", "show what is left on each GPU, and where a share would fit",
      [](Options& options, std::string& fit) {
        options.simulated();
        options.watch();
        options.text("--fit", "SIZE,PART", "memory and compute that must fit: 10GiB,30%", fit);
        options.lists();
      },
      free_command)};
}

}  // namespace headgate::cli
