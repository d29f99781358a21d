// The six tenants of `headgate demo`: what each requests and then does. Data only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace headgate::demo {

enum class DemoRole { trainer, server, notebook, leaker, over_asker, bypasser };

struct DemoTenant {
  DemoRole role = DemoRole::trainer;
  std::string name;  // of tenant and share
  std::string does;  // at most 31 cells
  std::uint64_t limit_bytes = 0;
  std::uint64_t takes_bytes = 0;     // allocated at the start and kept
  std::uint64_t attempts_bytes = 0;  // requested at the start, beyond its limit
  std::uint64_t grows_bytes = 0;     // per step
  unsigned compute_percent = 0;      // guarantee
  unsigned ceiling_percent = 0;      // maximum
  double starts_at_s = 0;
  std::vector<std::pair<std::string, std::string>> order{};  // its share's options, as POST /v1/shares takes them
  std::vector<std::string> command{};         // prefix of the load's command: {"env", "-u", "LD_PRELOAD"}
  std::vector<std::string> load_arguments{};  // for headgate-load
};

// The server's demand on an idle GPU: 10 ms of kernels, then a 50 ms pause. Less than its guarantee.
inline constexpr unsigned kDemoServerWantsPercent = 17;
inline constexpr double kDemoTailS = 2;  // from the tenants' end to the demo's

// All fit one GPU of 141 GiB. `total_s` is at least kShortestDemoS.
inline constexpr unsigned kShortestDemoS = 12, kDefaultDemoS = 17, kLongestDemoS = 120;
[[nodiscard]] std::vector<DemoTenant> demo_cast(double total_s);

}  // namespace headgate::demo
