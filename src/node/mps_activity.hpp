// Which GPUs have programs without turns: clients of an MPS server, whose kernels run at once, or programs of shares in
// the driver's time slices. The arbiter's policy is off for as long. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace headgate::node {

// Programs that start within this time after one another keep a GPU in one state.
inline constexpr std::uint64_t kMpsGoneNs = 3'000'000'000;

class MpsActivity {
 public:
  enum class News { none, began, ended };

  // Takes from one snapshot how many processes of shares are clients on the GPU. Begins at once, ends when there was
  // none for kMpsGoneNs. `now_ns`: CLOCK_MONOTONIC.
  News look(const std::string& uuid, std::uint32_t clients, std::uint64_t now_ns);
  [[nodiscard]] bool is_on(const std::string& uuid) const { return last_seen_ns_.contains(uuid); }

 private:
  std::map<std::string, std::uint64_t> last_seen_ns_;  // of GPUs on which it has begun
};

}  // namespace headgate::node
