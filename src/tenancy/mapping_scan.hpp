// Who uses a page that says nothing of its users any more, because a tenant has damaged it.
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

// One search. Whoever has many mappings, or many processes with some, can make it long: it is done a part at a time.
class MappingScan {
 public:
  // Whether nobody but this process has the usage page in `place`, the share's directory, mapped. Errors: conflict, who
  // has; failed, where the search is not done, and the next call goes on where this one stopped, or where `proc` does
  // not show it.
  [[nodiscard]] Result<void> none(const std::string& share, const std::string& place, std::uint64_t inode,
                                  const std::string& proc);

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> processes_;  // pid and start time; anybody may make many
  std::size_t next_ = 0;
  std::optional<identity::MapsSearch> search_;  // of the next
};

}  // namespace headgate::tenancy
