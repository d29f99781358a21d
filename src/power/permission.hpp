// Decides which callers may change a GPU's settings. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/command.hpp"

namespace headgate::power {

struct Bounds {
  std::uint32_t least = 0, most = 0;
  [[nodiscard]] bool holds(std::uint32_t value) const { return value >= least && value <= most; }
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

// One [[power.grant]], with its names resolved.
struct Grant {
  std::vector<std::uint32_t> uids, gids;
  std::vector<std::string> users;         // names from tokens
  std::vector<std::string> gpus;          // indices or UUIDs; empty: all
  std::optional<Bounds> milliwatts;       // range for the power limit; empty: not permitted
  std::optional<Bounds> mhz, memory_mhz;  // ranges for locked clocks, which may also be reset; empty: not permitted
  bool persistence = false;
};

struct Writer {
  std::optional<std::uint32_t> uid;  // from the kernel; empty over TCP
  std::vector<std::uint32_t> gids;
  std::string user;  // from the token; empty without one
  bool administrator = false;
};

// The owner of a share on the GPU.
struct ShareOwner {
  std::uint32_t uid = 0;
  std::string user;
};

struct GpuUse {
  std::uint32_t index = 0;
  std::string uuid;
  std::vector<ShareOwner> owners;  // one for each share on it
};

// Returns true if the GPU has at least one share and the writer owns all of them.
[[nodiscard]] bool owns_all(const Writer& writer, const GpuUse& gpu);

// Permits everything to administrators and to the owner of all shares on the GPU; to others, what a grant permits.
// Errors: denied, with the values that a grant for this control would accept.
[[nodiscard]] Result<void> may_write(const Writer& writer, const GpuUse& gpu, const Command& command,
                                     std::span<const Grant> grants);

}  // namespace headgate::power
