// Finds the processes that use a usage page after a tenant has damaged its contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "identity/maps.hpp"
#include "identity/process.hpp"

namespace headgate::tenancy {

// One search, done in parts: a user can make it long with many mappings, or with many processes that have some.
class MappingScan {
 public:
  // Succeeds if no process but this one has the usage page in `place`, the share's directory, mapped. Errors: conflict
  // (names the process that has), failed (not done: the next call continues; or `proc` does not show it).
  [[nodiscard]] Result<void> none(const std::string& share, const std::string& place, std::uint64_t inode,
                                  const std::string& proc);

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> processes_;  // pid and start time; a user may start many
  std::size_t next_ = 0;
  std::optional<identity::MapsSearch> search_;  // of processes_[next_]
};

}  // namespace headgate::tenancy
