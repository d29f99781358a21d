#include "cli/view/chosen_source.hpp"

#include "cli/share/daemon.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

Result<Chosen> choose_source(const Call& call) {
  const std::string& profile = call.configuration.config["sim.profile"].value;
  if (call.simulate) return Chosen{TRY(local_source(call.simulate, profile))};
  std::optional<Error> silence;
  std::optional<std::string> pages;
  auto daemon = find_daemon();
  if (!daemon) {
    // If HEADGATE_SOCKET names a socket, show only the pages beside it, never another daemon's.
    if (daemon.error().code == ErrorCode::unreachable) pages = pages_beside_named_socket();
    if (!pages) return std::unexpected(daemon.error());
    silence = daemon.error();
    silence->message += "; what follows is read from the pages in " + harmless(*pages);
  } else if (*daemon) {
    return Chosen{daemon_source(**daemon), *daemon};
  } else if (const auto left_behind = socket_left_behind()) {
    silence = silence_at(*left_behind);
  }
  return Chosen{TRY(local_source(std::nullopt, profile, pages)), std::nullopt, silence};
}

std::optional<Error> nothing_to_show(const std::string& no_gpus, const snapshot::Snapshot& now,
                                     const std::string& command) {
  if (no_gpus.empty() || !now.shares.empty()) return std::nullopt;
  return Error{ErrorCode::unreachable, no_gpus,
               "'headgate " + command + " --sim' looks at a simulated GPU, 'headgate demo' shows one at work"};
}

}  // namespace headgate::cli
