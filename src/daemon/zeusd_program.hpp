// `headgate zeusd serve` and `token issue`: zeusd's program, without the rest of the daemon.
#pragma once

#include "base/result.hpp"
#include "daemon/zeusd_options.hpp"

namespace headgate::daemon {

// Serves until SIGTERM, SIGINT or SIGQUIT. Errors: of the start; each names what is wrong and what is accepted.
[[nodiscard]] Result<void> serve_zeusd(const ZeusdServeOptions& options);

// Returns the token, for stdout. Errors: of the key file and the options.
[[nodiscard]] Result<std::string> issue_zeusd_token(const ZeusdTokenOptions& options);

// Runs `headgate zeusd` with these words; returns its exit status.
[[nodiscard]] int zeusd_main(int argc, char** argv);

}  // namespace headgate::daemon
