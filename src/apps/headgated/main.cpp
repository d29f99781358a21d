// headgated: the node's daemon. Handles the command line; daemon/daemon.cpp starts its parts in order.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/standard_streams.hpp"
#include "base/version.hpp"
#include "daemon/check.hpp"
#include "daemon/daemon.hpp"
#include "daemon/journal.hpp"
#include "daemon/options.hpp"
#include "daemon/zeusd_program.hpp"

namespace {

// Prints an error and returns its exit status. A message may have several lines: each mistake, then indented what is
// accepted.
int complain(const headgate::Error& error) {
  constexpr std::string_view kOurs = "headgated: ";
  for (std::string_view rest = error.message; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with(kOurs)) line.remove_prefix(kOurs.size());
    if (line.starts_with(' ')) std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    else headgate::daemon::journal(headgate::daemon::JournalLevel::error, line);
  }
  if (!error.hint.empty()) std::fprintf(stderr, "  %s\n", error.hint.c_str());
  return headgate::exit_status(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace headgate;
  fill_standard_streams();
  // `headgate zeusd` executes headgated with this argument, because the server is part of headgated.
  if (argc > 1 && std::string_view(argv[1]) == "zeusd") return daemon::zeusd_main(argc - 2, argv + 2);
  const auto options = daemon::parse(argc, argv);
  if (!options) return complain(options.error());
  if (options->help) return std::fputs(daemon::usage_text(), stdout), 0;
  if (options->version) return std::puts(("headgated " + version_text()).c_str()), 0;
  if (options->check) {
    if (const auto checked = daemon::check(*options); !checked) return complain(checked.error());
    return std::puts("headgated would start with this configuration"), 0;
  }
  const auto ended = daemon::run(*options);
  return ended ? 0 : complain(ended.error());
}
