// `headgate zeusd`: starts the program that serves headgated's zeusd API.
#include "cli/commands.hpp"
#include "cli/run/launch.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

// Replaces this process.
Result<int> zeusd(const Call& call) {
  std::vector<std::string> all = {TRY(install::daemon_program()), "zeusd"};
  all.insert(all.end(), call.words.begin(), call.words.end());
  return become(all);
}

}  // namespace

Commands zeusd_commands() {
  return {plain_command(kPlumbing, "zeusd", "serve zeusd's API: GPU power, clocks and energy for users without root",
                        zeusd, Reads::nothing, [](Options& options) {
                          options.rest = Rest::unread;
                          options.footer =
                              "Commands: serve, token issue; headgate zeusd serve --help lists their options";
                        })};
}

}  // namespace headgate::cli
