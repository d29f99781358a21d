// Who may set a GPU. Pure.
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

// One [[power.grant]], its names resolved.
struct Grant {
  std::vector<std::uint32_t> uids, gids;
  std::vector<std::string> users;         // as callers with tokens name themselves
  std::vector<std::string> gpus;          // indices or UUIDs; empty: all
  std::optional<Bounds> milliwatts;       // of the power limit; empty: it may not be set
  std::optional<Bounds> mhz, memory_mhz;  // of locked clocks, which may be reset too; empty: not
  bool persistence = false;
};

struct Writer {
  std::optional<std::uint32_t> uid;  // by the kernel's word; empty over TCP
  std::vector<std::uint32_t> gids;
  std::string user;  // of the token; empty without one
  bool administrator = false;
};

// A share on the GPU: whose it is.
struct ShareOwner {
  std::uint32_t uid = 0;
  std::string user;
};

struct GpuUse {
  std::uint32_t index = 0;
  std::string uuid;
  std::vector<ShareOwner> owners;  // of each share on it
};

// Whether the GPU is the writer's: it has a share, and every share on it is the writer's.
[[nodiscard]] bool owns_all(const Writer& writer, const GpuUse& gpu);

// Administrators may set everything, and so may the owner of all shares of a GPU on it; others what a grant lets them.
// Errors: denied, with the values that a grant would accept, if there is one for this control.
[[nodiscard]] Result<void> may_write(const Writer& writer, const GpuUse& gpu, const Command& command,
                                     std::span<const Grant> grants);

}  // namespace headgate::power
