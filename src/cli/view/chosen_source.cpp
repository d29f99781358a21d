#include "cli/view/chosen_source.hpp"

#include "cli/share/daemon.hpp"

namespace headgate::cli {

Result<Chosen> choose_source(const Invocation& invocation, const config::Config& config) {
  std::optional<Error> silence;
  if (!invocation.simulate) {
    if (const auto daemon = TRY(find_daemon())) return Chosen{daemon_source(*daemon), daemon};
    if (const auto left_behind = socket_left_behind()) silence = silence_at(*left_behind);
  }
  return Chosen{TRY(local_source(invocation.simulate, config["sim.profile"].value)), std::nullopt, silence};
}

}  // namespace headgate::cli
