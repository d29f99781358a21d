// Which GPUs have kernels of several shares running at once, because processes of shares are clients of an MPS server
// there. Turns are wrong then: the arbiter's policy is off for as long. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace headgate::node {

// Programs that come and go one after the other keep a GPU in one state.
inline constexpr std::uint64_t kMpsGoneNs = 3'000'000'000;

class MpsActivity {
 public:
  enum class News { none, began, ended };

  // One snapshot's word: how many processes of shares are clients on the GPU. Begins at once, ends when there has been
  // none for kMpsGoneNs. `now_ns`: CLOCK_MONOTONIC.
  News look(const std::string& uuid, std::uint32_t clients, std::uint64_t now_ns);

 private:
  std::map<std::string, std::uint64_t> last_seen_ns_;  // of GPUs where it has begun
};

}  // namespace headgate::node
