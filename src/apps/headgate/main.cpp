// headgate: the command. Reads its words, does what they say, answers with a status a script can use.
#include "cli/command_line.hpp"
#include "cli/words.hpp"

int main(int argc, char** argv) {
  using namespace headgate;
  const auto invocation = cli::parse(argc, argv);
  if (!invocation) {
    cli::complain(invocation.error(), {});
    return exit_status(invocation.error().code);
  }
  return cli::perform(*invocation);
}
