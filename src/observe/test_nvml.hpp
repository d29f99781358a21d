// The scripted NVML's answers: one row for each question of a kind; the last row answers all further ones.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace headgate::observe {

struct ScriptedRow {
  unsigned pid;
  std::uint64_t bytes;  // ~0: not told
};
struct ScriptedEnd {
  unsigned pid;
  std::uint64_t peak_bytes;
  bool running;
};
struct ScriptedLink {
  bool active;
  std::array<unsigned long long, 4> errors;  // by kind; the driver has no figure for the fifth
};
struct ScriptedBoard {
  unsigned busy, memory_busy;  // percent
  unsigned celsius, milliwatts, limit_milliwatts;
  std::array<unsigned, 4> clocks_mhz;  // by nvmlClockType_t: graphics, SM, memory, video
  unsigned long long millijoules, slowed_by;
  unsigned pcie_generation, pcie_width, compute_mode;
  bool ecc;
};
struct ScriptedLimits {
  std::uint64_t soft, hard, used;
};
struct Script {
  bool answers = true;               // false: the driver has gone; it counts no GPUs and says why
  void (*when_counted)() = nullptr;  // called whenever the number of GPUs is asked
  unsigned gpus = 1;
  std::vector<std::vector<ScriptedRow>> compute{{}};
  std::vector<ScriptedRow> mps;
  std::vector<std::uint64_t> used_bytes{0};
  bool accounting = false;
  std::vector<ScriptedEnd> accounted;
  std::optional<ScriptedBoard> board;
  std::optional<std::array<std::array<unsigned long long, 2>, 2>> ecc_errors;  // [uncorrected][in its life]
  std::vector<ScriptedLink> nvlinks;
  std::optional<std::array<unsigned long long, 2>> nvlink_kib;  // sent, received, over all links
  std::optional<std::array<unsigned, 2>> video_percent;         // encoder, decoder
  std::optional<unsigned> pcie_replays;
  std::optional<std::array<unsigned, 2>> pcie_kib_per_s;  // sent, received
  std::optional<std::vector<double>> sm_util;             // percent, one for each pair of samples
  unsigned sm_sample_result = 0;                          // nvmlReturn_t of taking one
  std::vector<std::array<unsigned, 2>> utilization;       // pid and percent, one for each sample
  int samples_held = 0;
  std::vector<std::string> slices;               // UUIDs by place, "" if empty; without places the card has no MIG
  std::map<std::string, ScriptedLimits> limits;  // by cgroup, of all GPUs
  unsigned limit_result = 0;                     // nvmlReturn_t of setting one
  bool limit_is_kept = true;                     // false: setting one succeeds and changes nothing
  std::vector<std::string> limits_set;           // "CGROUP SOFT HARD", each call that was not refused
  const char* driver_version = "615.00";
  std::size_t lists_asked = 0, memory_asked = 0, traffic_asked = 0, sm_asked = 0;
};
inline constexpr std::uint64_t kScriptedTotal = 1ull << 36;

}  // namespace headgate::observe
