#include "cli/support/zeusd.hpp"

#include <unistd.h>

#include <cerrno>

#include "install/paths.hpp"

namespace headgate::cli {

int zeusd(const Voice& voice, const std::vector<std::string>& words) {
  const auto refuse = [&voice](const Error& error) {
    complain(error, voice);
    return exit_status(error.code);
  };
  const auto program = install::daemon_program();
  if (!program) return refuse(program.error());
  std::vector<std::string> all = {*program, "zeusd"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& one : all) argv.push_back(one.data());
  argv.push_back(nullptr);
  ::execv(program->c_str(), argv.data());
  return refuse(fail_errno("starting " + *program, errno).error());
}

}  // namespace headgate::cli
