// Which source a live view looks at: the daemon where one answers, else the driver and this user's shares.
#pragma once

#include <memory>
#include <optional>

#include "cli/command_line.hpp"
#include "cli/view/snapshot_source.hpp"
#include "config/config.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

struct Chosen {
  std::unique_ptr<SnapshotSource> source;
  std::optional<http::Endpoint> daemon;
  // A daemon was here and does not answer: of its node this source knows only what its pages say.
  std::optional<Error> silence = {};
};

// With --sim: that simulated node, without a daemon. Errors: those of find_daemon() and local_source().
[[nodiscard]] Result<Chosen> choose_source(const Invocation& invocation, const config::Config& config);

}  // namespace headgate::cli
