#include "cli/commands.hpp"

#include <string_view>

#include "cli/parse.hpp"

namespace headgate::cli {
namespace {

Result<int> performed(Parsed parsed) {
  if (parsed.help) return show(*parsed.help);
  if (!parsed.call.voice.quiet)
    for (const std::string& text : parsed.warnings) say(text);
  if (parsed.reads != Reads::nothing) {
    const std::string& given = parsed.call.config_path;
    parsed.call.configuration = config::read(given.empty() ? config::kDefaultFile : given, !given.empty());
    // An unreadable value must not silently become a default, least of all "no limit".
    if (const auto& errors = parsed.call.configuration.errors; parsed.reads == Reads::sound && !errors.empty())
      return std::unexpected(errors.front());
  }
  return parsed.run(parsed.call);
}

}  // namespace

// In the order of --help.
Commands all_commands(const Above& above) {
  Commands all;
  for (const Commands& some : {run_commands(),
                               status_commands(),
                               ps_commands(),
                               free_commands(),
                               why_commands(),
                               doctor_commands(above.self_test),
                               top_commands(),
                               events_commands(),
                               share_commands(),
                               quota_commands(),
                               gpu_commands(),
                               power_commands(),
                               limiter_commands(),
                               cdi_commands(),
                               runtime_commands(),
                               engine_commands(),
                               above.proofs,
                               zeusd_commands(),
                               api_commands(),
                               sim_commands(),
                               config_commands(),
                               completion_commands(),
                               support_bundle_commands(above.self_test),
                               version_commands()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

int perform(int argc, const char* const* argv, const Above& above) {
  const Commands table = all_commands(above);
  if (argc > 1 && std::string_view(argv[1]) == "__complete")
    return print(completions(table, {argv + 2, argv + argc})) ? 0 : exit_status(ErrorCode::failed);
  auto parsed = parse(table, argc, argv);
  const Voice voice = parsed && !parsed->help ? parsed->call.voice : voice_of_arguments(argc, argv);
  const Result<int> status = parsed ? performed(std::move(*parsed)) : std::unexpected(parsed.error());
  if (status) return *status;
  complain(status.error(), voice);
  return exit_status(status.error().code);
}

}  // namespace headgate::cli
