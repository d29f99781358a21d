// Reports GPU time of contexts that a limiter could not measure for 100 ms, with the driver's call that failed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Not thread-safe.
class Unmeasured {
 public:
  // Returns an event share.unmeasured for each share and GPU with more hook_errors than at the last look. Those that
  // the first look finds are an earlier daemon's.
  [[nodiscard]] std::vector<snapshot::Event> look(const std::vector<snapshot::Share>& shares);

 private:
  using Key = std::pair<std::uint64_t, std::string>;  // the share's generation, UUID
  std::map<Key, std::vector<snapshot::HookErrors>> known_;
  bool looked_ = false;
};

}  // namespace headgate::observe
