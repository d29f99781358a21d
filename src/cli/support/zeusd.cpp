// `headgate zeusd`: starts the program that serves headgated's zeusd API.
#include <unistd.h>

#include <cerrno>

#include "cli/commands.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

// Replaces this process.
Result<int> zeusd(const Call& call) {
  const std::string program = TRY(install::daemon_program());
  std::vector<std::string> all = {program, "zeusd"};
  all.insert(all.end(), call.words.begin(), call.words.end());
  std::vector<char*> argv;
  for (std::string& one : all) argv.push_back(one.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return fail_errno("starting " + program, errno);
}

}  // namespace

Commands zeusd_commands() {
  return {plain_command(kPlumbing, "zeusd", "serve zeusd's API: GPU power, clocks and energy for users without root",
                        zeusd, Reads::nothing, [](Options& options) {
                          options.rest = Rest::unread;
                          options.footer =
                              "Its own: serve, token issue; headgate zeusd serve --help lists their options";
                        })};
}

}  // namespace headgate::cli
