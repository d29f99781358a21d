// Chooses the source of a live view: the daemon if one answers, else the driver and this user's shares.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/view/snapshot_source.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

struct Chosen {
  std::unique_ptr<SnapshotSource> source;
  std::optional<http::Endpoint> daemon;
  // Set if a daemon was here and does not answer: the source knows only what its pages show.
  std::optional<Error> silence = {};
};

// With --sim: that simulated node, without a daemon. Errors: those of find_daemon() and local_source().
[[nodiscard]] Result<Chosen> choose_source(const Call& call);

// Why a view has nothing to show: no driver and no daemon answers, and there is no share. Empty: it has something.
[[nodiscard]] std::optional<Error> nothing_to_show(const std::string& no_gpus, const snapshot::Snapshot& now,
                                                   const std::string& command);

}  // namespace headgate::cli
