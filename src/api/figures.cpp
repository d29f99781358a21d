#include "api/figures.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/now.hpp"
#include "node/node.hpp"
#include "observe/observer.hpp"

namespace headgate::api {

void Tally::look(const snapshot::Snapshot& snapshot) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t before = std::exchange(looked_ns_, snapshot.taken_ns);
  account(snapshot);
  if (before == 0 || snapshot.taken_ns <= before || snapshot.node.nvml_released) return;
  const double seconds = std::min(static_cast<double>(snapshot.taken_ns - before) / 1e9, kLongestGap);
  for (const auto& gpu : snapshot.gpus) {
    for (const auto& reason : gpu.throttle_reasons) sums_.throttled_seconds[{gpu.uuid, reason}] += seconds;
  }
}

// The first snapshot and any counter that went backwards add nothing; they only set a new starting point.
void Tally::account(const snapshot::Snapshot& snapshot) {
  const double seconds = (static_cast<double>(snapshot.taken_ns) - static_cast<double>(accounted_ns_)) / 1e9;
  if (accounted_ns_ != 0 && seconds < kMinAccounted) return;
  accounted_ns_ = snapshot.taken_ns;
  std::map<std::string, std::uint64_t> energy_mj;
  if (!snapshot.node.nvml_released) {
    for (const auto& gpu : snapshot.gpus)
      if (gpu.energy_mj) energy_mj[gpu.uuid] = *gpu.energy_mj;
  }
  std::map<std::pair<std::string, std::string>, std::uint64_t> held_ns;
  std::map<std::string, double> held_s;  // by GPU, all shares together
  std::map<std::string, int> workers;
  std::map<std::pair<std::string, std::string>, double> mine_s;
  for (const auto& share : snapshot.shares) {
    for (const auto& device : share.devices) {
      const std::pair key(share.name, device.uuid);
      held_ns[key] = device.held_ns;
      const auto then = held_ns_.find(key);
      if (then == held_ns_.end() || device.held_ns <= then->second) continue;
      // A share cannot have held a GPU longer than the elapsed time, whatever its tenant-writable pages claim.
      mine_s[key] = std::min(static_cast<double>(device.held_ns - then->second) / 1e9, seconds);
      held_s[device.uuid] += mine_s[key];
      ++workers[device.uuid];
    }
  }
  for (const auto& process : snapshot.processes) {
    if (!process.share.empty()) continue;
    for (const auto& device : process.devices) workers[device.uuid] += device.busy_ratio == 0.0 ? 0 : 1;
  }
  for (const auto& [uuid, now] : energy_mj) {
    const auto then = energy_mj_.find(uuid);
    if (then == energy_mj_.end() || now < then->second) continue;
    const double joules = static_cast<double>(now - then->second) / 1e3;
    double charged = 0;
    for (const auto& [key, mine] : mine_s) {
      if (key.second != uuid) continue;
      const double part = joules * mine / std::max(seconds, held_s[uuid]);
      sums_.share_energy[{key.first, uuid, workers[uuid] == 1 ? "exclusive" : "model"}] += part;
      charged += part;
    }
    sums_.unattributed_energy[uuid] += joules - charged;
  }
  // Drop the sums of shares that have ended.
  std::erase_if(sums_.share_energy, [&](const auto& entry) {
    return !held_ns.contains({std::get<0>(entry.first), std::get<1>(entry.first)});
  });
  energy_mj_ = std::move(energy_mj);
  held_ns_ = std::move(held_ns);
}

void Tally::note(const snapshot::Event& event) {
  const std::scoped_lock lock(mutex_);
  ++sums_.events[event.kind];
}

std::optional<DirectoryRoom> room_of(const std::string& name, const std::string& path) {
  struct statvfs room{};
  if (::statvfs(path.c_str(), &room) != 0 || room.f_blocks == 0) return std::nullopt;
  return DirectoryRoom{
      .name = name, .free_bytes = room.f_bavail * room.f_frsize, .size_bytes = room.f_blocks * room.f_frsize};
}

Tally::Sums Tally::sums() const {
  const std::scoped_lock lock(mutex_);
  return sums_;
}

void read_process_figures(DaemonFigures& figures) {
  figures.now_ns = steady_now_ns();
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    figures.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  // /proc/self/statm, proc(5): sizes in pages; the second is the resident set.
  std::uint64_t whole = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> whole >> resident)
    figures.resident_bytes = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::error_code error;
  std::uint64_t files = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error))
    ++files;
  if (!error && files > 0) figures.open_files = files - 1;  // less the descriptor that this scan opened
}

static Durations durations(const node::Arbitration::Times& times) {
  Durations all{.sum_seconds = static_cast<double>(times.sum_ns) / 1e9};
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < times.took.size(); ++i) {
    so_far += times.took[i];
    all.buckets.push_back(
        {i < times.kBoundsNs.size() ? static_cast<double>(times.kBoundsNs[i]) / 1e9 : HUGE_VAL, so_far});
  }
  return all;
}

DaemonFigures daemon_figures(const node::Node& node, const observe::Observer& observer, const Tally& tally) {
  DaemonFigures figures;
  read_process_figures(figures);
  figures.sums = tally.sums();
  figures.driver_answered_ns = observer.driver_answered_ns();
  const auto arbiter = node.arbiter_figures();
  if (!arbiter) return figures;
  figures.decisions = durations(arbiter->decisions);
  figures.wakes = durations(arbiter->wakes);
  figures.gate_changes = arbiter->gate_writes;
  figures.doorbell_rings = arbiter->rings;
  return figures;
}

}  // namespace headgate::api
