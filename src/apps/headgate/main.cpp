// headgate: the command. Parses the arguments, runs the command, exits with a status that scripts can use.
#include <string_view>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "demo/bench.hpp"
#include "demo/demo.hpp"
#include "demo/self_test.hpp"

namespace {

// If the arguments cannot be parsed, they may still name the output format for the error.
headgate::cli::Voice voice_of_arguments(int argc, char** argv) {
  headgate::cli::Voice voice;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i], before = argv[i - 1];
    const bool is_form = before == "-o" || before == "--output";
    if (word == "--json" || word.starts_with("--output=json") || word.starts_with("-ojson") ||
        (is_form && word.starts_with("json")))
      voice.format = headgate::cli::Format::json;
  }
  return voice;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace headgate;
  const auto invocation = cli::parse(argc, argv);
  if (!invocation) {
    cli::complain(invocation.error(), voice_of_arguments(argc, argv));
    return exit_status(invocation.error().code);
  }
  return cli::perform(*invocation, {.demo = demo::demo, .bench = demo::bench, .self_test = demo::self_test});
}
