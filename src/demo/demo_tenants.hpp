// Who plays in `headgate demo`: six tenants, what each asks of the node, and what it then does. Data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace headgate::demo {

enum class DemoRole { trainer, server, notebook, leaker, over_asker, bypasser };

struct DemoTenant {
  DemoRole role = DemoRole::trainer;
  std::string name;  // of the tenant and of its share
  std::string does;  // at most 30 cells
  std::uint64_t limit_bytes = 0;
  std::uint64_t takes_bytes = 0;     // at its start, and keeps
  std::uint64_t attempts_bytes = 0;  // at its start, beyond what it may have
  std::uint64_t grows_bytes = 0;     // at each step
  unsigned compute_percent = 0;      // promised
  unsigned ceiling_percent = 0;      // at most
  double starts_at_s = 0;
  std::vector<std::pair<std::string, std::string>> order{};  // of its share, as POST /v1/shares takes it
  std::vector<std::string> command{};                        // in front of the load: {"env", "-u", "LD_PRELOAD"}
  std::vector<std::string> load_arguments{};                 // of headgate-load
};

// What the server would have of a GPU of its own: 10 ms of kernels, then 50 ms without. Less than it is promised.
inline constexpr unsigned kDemoServerWantsPercent = 17;
inline constexpr double kDemoTailS = 2;  // between the tenants' end and the demo's

// They fit one GPU of 141 GiB. `total_s` is at least kShortestDemoS.
inline constexpr unsigned kShortestDemoS = 12, kDefaultDemoS = 17, kLongestDemoS = 120;
[[nodiscard]] std::vector<DemoTenant> demo_cast(double total_s);

}  // namespace headgate::demo
