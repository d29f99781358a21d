#include "cli/chosen_source.hpp"

#include "cli/daemon.hpp"

namespace headgate::cli {

Result<Chosen> choose_source(const Invocation& invocation, const config::Config& config) {
  if (!invocation.simulate) {
    if (const auto daemon = TRY(find_daemon())) return Chosen{daemon_source(*daemon), daemon};
  }
  return Chosen{TRY(local_source(invocation.simulate, config["sim.profile"].value)), std::nullopt};
}

}  // namespace headgate::cli
