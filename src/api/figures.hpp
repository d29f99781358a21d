// What the daemon tells of itself, and what only grows from snapshot to snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/page.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {
class Node;
}
namespace headgate::observe {
class Observer;
}

namespace headgate::api {

// A directory of the daemon's, and what is left in its file system for it.
struct DirectoryRoom {
  std::string name;  // runtime, state
  std::uint64_t free_bytes = 0, size_bytes = 0;
};
// Empty where the file system tells none.
[[nodiscard]] std::optional<DirectoryRoom> room_of(const std::string& name, const std::string& path);

// How the daemon stands, as of a few seconds ago.
struct Standing {
  bool ready = false;         // as /readyz says
  bool events_saved = false;  // they are written to the disk
  std::uint64_t events_kept = 0;
  std::vector<DirectoryRoom> directories;
};

// Sums over the life of the daemon, and what else the page shows of it. Thread-safe: snapshots come from the observer,
// events from anybody.
class Tally {
 public:
  struct Sums {
    std::map<std::pair<std::string, std::string>, double> throttled_seconds;  // by GPU's UUID and reason
    std::map<std::string, std::uint64_t> events;                              // by kind
    // Joules by share, GPU's UUID and method (account() in figures.cpp).
    std::map<std::tuple<std::string, std::string, std::string>, double> share_energy;
    std::map<std::string, double> unattributed_energy;  // joules that no share is charged, by GPU's UUID
    std::optional<std::uint64_t> clients;               // connections now
    std::optional<double> scrape_seconds;               // what the page before this one took
    std::optional<Standing> standing;
  };

  // A reason that a snapshot shows counts for the time since the snapshot before, at most `kLongestGap`: NVML says what
  // is so now, not for how long it was.
  static constexpr double kLongestGap = 5;  // seconds
  // A GPU's energy since the snapshot before is a share's by the part of that time in which it held the GPU; where
  // shares together held it for longer than that (they ran at once), by its part of their sum. Looks closer to each
  // other are one: the driver moves its energy counter some ten times a second.
  static constexpr double kMinAccounted = 0.5;  // seconds
  void look(const snapshot::Snapshot& snapshot);
  void note(const snapshot::Event& event);
  void connected(std::uint64_t clients);
  void scraped(double seconds);
  void stands(Standing standing);
  [[nodiscard]] Sums sums() const;

 private:
  void account(const snapshot::Snapshot& snapshot);

  mutable std::mutex mutex_;
  Sums sums_;
  std::map<std::string, std::uint64_t> energy_mj_;                        // by GPU, at the snapshot before
  std::map<std::pair<std::string, std::string>, std::uint64_t> held_ns_;  // by share and GPU, then
  std::uint64_t looked_ns_ = 0, accounted_ns_ = 0;                        // CLOCK_MONOTONIC; 0: never
};

// How long something took, each time: in all, and by the time, in seconds.
struct Durations {
  double sum_seconds = 0;
  std::vector<Bucket> buckets;
};

// An optional that is empty is left out of the page.
struct DaemonFigures {
  std::uint64_t now_ns = 0;              // CLOCK_MONOTONIC
  std::uint64_t driver_answered_ns = 0;  // likewise, when the driver last did
  Tally::Sums sums;
  // Of this process, by its kernel.
  std::optional<double> cpu_seconds;
  std::optional<std::uint64_t> resident_bytes, open_files;
  // Of the arbiter's thread.
  std::optional<Durations> decisions, wakes;
  std::optional<std::uint64_t> gate_changes, doorbell_rings;
};

// Fills now_ns and the kernel's figures; what a machine without /proc does not tell stays empty.
void read_process_figures(DaemonFigures& figures);

// All of them, as they are now: the same in each form in which they are told. Any thread.
[[nodiscard]] DaemonFigures daemon_figures(const node::Node& node, const observe::Observer& observer,
                                           const Tally& tally);

}  // namespace headgate::api
