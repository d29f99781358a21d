// The daemon's figures about itself, and the counters it accumulates over snapshots.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/page.hpp"
#include "mps/manager.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {
class Node;
}
namespace headgate::observe {
class Observer;
}

namespace headgate::api {

// A directory of the daemon and the free space that its file system has for it.
struct DirectoryRoom {
  std::string name;  // runtime, state
  std::uint64_t free_bytes = 0, size_bytes = 0;
};
// Returns nothing if the file system does not report its space.
[[nodiscard]] std::optional<DirectoryRoom> room_of(const std::string& name, const std::string& path);

// State of the daemon, as of a few seconds ago.
struct Standing {
  bool ready = false;         // as /readyz reports
  bool events_saved = false;  // events reach the disk
  std::uint64_t events_kept = 0;
  std::vector<DirectoryRoom> directories;
};

// Counters over the daemon's life, and other values for the metrics page. Thread-safe: the observer adds snapshots, any
// thread adds events.
class Tally {
 public:
  struct Sums {
    std::map<std::pair<std::string, std::string>, double> throttled_seconds;  // by GPU's UUID and reason
    std::map<std::string, std::uint64_t> events;                              // by kind
    // Joules by share, GPU UUID and method (account() in figures.cpp).
    std::map<std::tuple<std::string, std::string, std::string>, double> share_energy;
    std::map<std::string, double> unattributed_energy;  // joules charged to no share, by GPU UUID
    std::optional<std::uint64_t> clients;               // open connections
    std::optional<double> scrape_seconds;               // duration of the previous scrape
    std::optional<Standing> standing;
    std::vector<mps::GroupView> mps;  // control daemons of headgate's
  };

  // A throttle reason counts for the time since the previous snapshot, at most `kLongestGap`: NVML reports the present
  // state, not its duration.
  static constexpr double kLongestGap = 5;  // seconds
  // A share is charged for a GPU's energy by the fraction of the interval in which it held the GPU. If shares ran at
  // once and their times exceed the interval, their sum is the denominator. Shorter intervals are merged, because the
  // driver updates its energy counter only about ten times a second.
  static constexpr double kMinAccounted = 0.5;  // seconds
  void look(const snapshot::Snapshot& snapshot);
  void note(const snapshot::Event& event);
  // Sets one of the sums that other parts know.
  template <typename T>
  void set(T Sums::* sum, std::type_identity_t<T> value) {
    const std::scoped_lock lock(mutex_);
    sums_.*sum = std::move(value);
  }
  [[nodiscard]] Sums sums() const;

 private:
  void account(const snapshot::Snapshot& snapshot);

  mutable std::mutex mutex_;
  Sums sums_;
  std::map<std::string, std::uint64_t> energy_mj_;                        // by GPU, at the previous snapshot
  std::map<std::pair<std::string, std::string>, std::uint64_t> held_ns_;  // by share and GPU, at the previous snapshot
  std::uint64_t looked_ns_ = 0, accounted_ns_ = 0;                        // CLOCK_MONOTONIC; 0: never
};

// A histogram of durations, in seconds.
struct Durations {
  double sum_seconds = 0;
  std::vector<Bucket> buckets;
};

// Empty optionals are left out of the page.
struct DaemonFigures {
  std::uint64_t now_ns = 0;              // CLOCK_MONOTONIC
  std::uint64_t driver_answered_ns = 0;  // CLOCK_MONOTONIC, when the driver last answered
  Tally::Sums sums;
  // About this process, from the kernel.
  std::optional<double> cpu_seconds;
  std::optional<std::uint64_t> resident_bytes, open_files;
  // About the arbiter's thread.
  std::optional<Durations> decisions, wakes;
  std::optional<std::uint64_t> gate_changes, doorbell_rings;
};

// Fills now_ns and the kernel's figures; those that need /proc stay empty without it.
void read_process_figures(DaemonFigures& figures);

// Collects the current figures, the same ones for every output format. Any thread.
[[nodiscard]] DaemonFigures daemon_figures(const node::Node& node, const observe::Observer& observer,
                                           const Tally& tally);

}  // namespace headgate::api
