#include "cli/command_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "base/did_you_mean.hpp"
#include "base/duration.hpp"
#include "cli/command_grammar.hpp"
#include "cli/term/output_format.hpp"
#include "cli/top/top.hpp"

namespace headgate::cli {
namespace {

constexpr std::uint64_t kDefaultWatchMs = 2000;

// argv up to the first "--", and the words after it. "--sim=tiny" becomes "--sim --sim-profile=tiny".
struct Split {
  std::vector<std::string> ours, behind;
  bool marked = false;
};

Split split(int argc, const char* const* argv) {
  Split out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (out.marked) {
      out.behind.emplace_back(text);
    } else if (text == "--") {
      out.marked = true;
    } else if (text.starts_with("--sim=")) {
      out.ours.emplace_back("--sim");
      out.ours.push_back("--sim-profile=" + std::string(text.substr(6)));
    } else {
      out.ours.emplace_back(text);
    }
  }
  return out;
}

// Returns the innermost command given, and sets `name` to the full name: "sim truth".
const CLI::App* chosen(const CLI::App& app, std::string& name) {
  const CLI::App* at = &app;
  for (auto inner = at->get_subcommands(); !inner.empty(); inner = at->get_subcommands()) {
    at = inner.front();
    name += (name.empty() ? "" : " ") + at->get_name();
  }
  return at;
}

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

Voice voice_of(const Raw& raw) {
  Voice voice = raw.out.voice;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  voice.colour = ::isatty(STDOUT_FILENO) == 1 && !raw.no_colour && !set("NO_COLOR") && !dumb;
  voice.ascii = raw.ascii;
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) voice.columns = size.ws_col;
  voice.talk = !voice.quiet && (voice.verbose || ::isatty(STDERR_FILENO) == 1);
  return voice;
}

// `most_ms`: of an option that accepts 10ms to that.
Result<std::uint64_t> milliseconds_from(const std::string& option, std::string_view text, std::uint64_t most_ms,
                                        const std::string& accepted) {
  const auto time = read_time(text);
  const std::uint64_t ms =
      time ? static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(*time).count()) : 0;
  if (ms < 10 || ms > most_ms)
    return fail(ErrorCode::usage, option + " '" + std::string(text) + "' is not understood", accepted);
  return ms;
}

// Takes the program's command line: all words after "--", or from the first word that is not an option of ours.
Result<void> take_command(const CLI::App& app, const Split& written, Invocation& out) {
  out.run.command = app.remaining();
  if (!out.run.command.empty() && (written.marked || out.run.command.front().starts_with("-"))) {
    const bool option = out.run.command.front().starts_with("-");
    return fail(ErrorCode::usage,
                (option ? "run has no option '" : "run takes no argument '") + harmless(out.run.command.front()) + "'",
                "see 'headgate run --help'; write '--' before the command");
  }
  if (written.marked) out.run.command = written.behind;
  for (std::size_t i = 0; i + 1 < out.run.command.size(); ++i) {
    if (!written.marked && out.run.command[i] == "--sim" && out.run.command[i + 1].starts_with("--sim-profile=")) {
      out.run.command[i] = "--sim=" + out.run.command[i + 1].substr(14);
      out.run.command.erase(out.run.command.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return {};
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!inner->get_name().empty()) all.push_back(inner->get_name());
  }
  return all;
}

std::string format_accepted(const CLI::App& app) {
  std::string all;
  for (const std::string& word : words_of(app)) all += (all.empty() ? "accepted: " : ", ") + word;
  return all;
}

std::string meant(const std::string& typed, const std::vector<std::string>& words) {
  const std::string near = did_you_mean(typed, words);
  return near.empty() ? "" : "did you mean " + near + "? ";
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames())
      if (!option->get_group().empty()) all.push_back("--" + name);
  }
  return all;
}

std::unexpected<Error> unknown_word(const CLI::App& app) {
  std::string name;
  const CLI::App* at = chosen(app, name);
  const auto left = app.remaining(true);
  const std::string text = left.empty() ? "" : harmless(left.front());
  const std::string owner = name.empty() ? "headgate" : name;
  const std::string see = "see 'headgate " + (name.empty() ? "" : name + " ") + "--help'";
  if (text.starts_with("-")) {
    const std::string option = text.substr(0, text.find('='));
    return fail(ErrorCode::usage, owner + " has no option '" + text + "'", meant(option, options_of(*at)) + see);
  }
  const auto words = words_of(*at);
  return fail(ErrorCode::usage, owner + (words.empty() ? " takes no argument '" : " has no command '") + text + "'",
              words.empty() ? see : meant(text, words) + format_accepted(*at));
}

std::string written_as(const CLI::Option& option) {
  return option.check_name("--sim-profile") ? "--sim" : option.get_name();
}

// Formats an option as help shows it.
std::string help_line_of(const CLI::Option& option) {
  if (option.check_name("--sim-profile")) return "--sim=PROFILE: " + option.get_description();
  const std::string type = option.get_type_name();
  return option.get_name() + (type.empty() ? "" : " " + type) + ": " + option.get_description();
}

// Refuses empty values: a script's unset variable leaves "" behind, which would otherwise mean all shares, any GPU or
// no image root. Options with an optional value are skipped, because CLI11 reports a left-out value as "".
Result<void> refuse_empty(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() == 0 || std::ranges::find(option->results(), "") == option->results().end())
      continue;
    return fail(ErrorCode::usage, (word.empty() ? "" : word + ": ") + written_as(*option) + " '' is empty",
                help_line_of(*option));
  }
  return {};
}

// Reports an option without its value (last on the line, or "OPTION="). CLI11's own message only counts the missing
// values and omits the name of a hidden option.
std::unexpected<Error> unreadable(const CLI::App& app, const std::string& word, const CLI::ParseError& error) {
  const std::string what = error.what(), before = word.empty() ? "" : word + ": ";
  const std::string see = "see 'headgate " + (word.empty() ? "" : word + " ") + "--help'";
  if (!what.ends_with(" missing")) return fail(ErrorCode::usage, before + what, see);
  const std::string option = what.starts_with(":") ? "--sim-profile" : what.substr(0, what.find(':'));
  for (const CLI::Option* one : app.get_options()) {
    if (one->check_name(option))
      return fail(ErrorCode::usage, before + written_as(*one) + " has no value", help_line_of(*one));
  }
  return fail(ErrorCode::usage, before + what, see);
}

}  // namespace

Result<Invocation> parse(int argc, const char* const* argv) {
  Raw raw;
  const auto app = describe_commands(raw);
  const Split written = split(argc, argv);
  std::vector<std::string> words(written.ours.rbegin(), written.ours.rend());  // CLI11 expects them reversed
  std::string name;
  try {
    app->parse(words);
  } catch (const CLI::CallForHelp&) {
    raw.out.command = "help";
    std::string help = app->help();
    chosen(*app, name);
    const std::string usage = "Usage: headgate run [OPTIONS]";
    if (name == "run") help.replace(help.find(usage), usage.size(), usage + " -- COMMAND [ARGUMENTS...]");
    raw.out.help = help;
    return raw.out;
  } catch (const CLI::ExtrasError&) {
    return unknown_word(*app);
  } catch (const CLI::ParseError& error) {
    const CLI::App* at = chosen(*app, name);
    if (name == "sim" || name == "config" || name == "share" || name == "quota" || name == "gpu" || name == "power" ||
        name == "api" || name == "limiter" || name == "cdi" || name == "runtime") {
      const auto left = app->remaining(true);
      if (!left.empty() && !left.front().starts_with("-")) return unknown_word(*app);
      return fail(ErrorCode::usage, name + " needs a command", format_accepted(*at));
    }
    // An unknown option is reported before a missing share name: what was written comes first.
    if (const auto left = app->remaining(true); !left.empty() && left.front().starts_with("-"))
      return unknown_word(*app);
    return unreadable(*at, name, error);
  }
  const CLI::App* at = chosen(*app, name);
  for (const CLI::App* each : {static_cast<const CLI::App*>(app.get()), at}) {
    if (auto said = refuse_empty(*each, name); !said) return std::unexpected(said.error());
  }
  if (raw.out.command.empty()) raw.out.command = name.empty() ? "status" : name;
  raw.out.voice = voice_of(raw);
  raw.out.voice.format = TRY(output_format_from(raw.out.command, raw.json ? "json" : raw.output));
  if (raw.simulated) raw.out.simulate = raw.profile;
  const bool live = name == "top" || name == "events" || name == "power watch";
  raw.out.interval_ms = TRY(milliseconds_from("--interval", live ? raw.live_interval : raw.interval, 60'000,
                                              "accepted: 10ms to 60s, such as 500ms or 1s"));
  if (raw.watch) {
    raw.out.watch_ms = raw.watch->empty() ? kDefaultWatchMs
                                          : TRY(milliseconds_from("--watch", *raw.watch, 3'600'000,
                                                                  "accepted: 10ms to 60m, such as 500ms, 2s or 5m"));
  }
  if (name == "power watch") raw.out.watch_ms = raw.out.interval_ms;
  if (constexpr std::string_view kViews[] = {"share", "gpu", "user", "process"};
      std::ranges::find(kViews, raw.out.by) == std::end(kViews))
    return fail(ErrorCode::usage, "--by '" + harmless(raw.out.by) + "' is not understood",
                "accepted: share, gpu, user or process");
  if (!raw.since.empty()) raw.out.since_ns = TRY(since_option(raw.since));
  raw.out.libraries = raw.symbols;
  for (const Raw::Renamed& each : raw.renamed)
    if (each.option->count() > 0)
      raw.out.warnings.push_back(std::string(each.before) + " is now called " + each.now +
                                 "; the next release does not know the old name");
  if (name == "run") {
    if (auto taken = take_command(*at, written, raw.out); !taken) return std::unexpected(taken.error());
  }
  const bool is_engine = name == "docker" || name == "podman";
  if (written.marked && name != "run" && !is_engine)
    return fail(ErrorCode::usage, "'--' and a command stand only behind 'run'",
                "such as: headgate run --mem 8GiB -- python train.py");
  if (name == "demo" || name == "bench") raw.out.rest = at->remaining();
  // Unparsed: "--sim=tiny" is for the program to read.
  if (name == "zeusd" || is_engine)
    raw.out.rest.assign(std::find(argv + 1, argv + argc, std::string_view(name)) + 1, argv + argc);
  return raw.out;
}

namespace {

CommandTree tree_of(const CLI::App& app) {
  CommandTree tree{
      .name = app.get_name(), .summary = app.get_description(), .options = {}, .valued = {}, .commands = {}};
  const auto collect = [&tree](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      if (option->get_group().empty()) continue;
      for (const auto& text : option->get_snames()) tree.options.push_back("-" + text);
      for (const auto& text : option->get_lnames()) tree.options.push_back("--" + text);
      if (option->get_items_expected_min() == 0 || option->get_positional()) continue;
      for (const auto& text : option->get_snames()) tree.valued.push_back("-" + text);
      for (const auto& text : option->get_lnames()) tree.valued.push_back("--" + text);
    }
  };
  collect(app);
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (inner->get_name().empty()) collect(*inner);  // an option group
    else tree.commands.push_back(tree_of(*inner));
  }
  std::ranges::sort(tree.options);
  tree.options.erase(std::ranges::unique(tree.options).begin(), tree.options.end());
  return tree;
}

}  // namespace

CommandTree command_tree() {
  Raw raw;
  const auto app = describe_commands(raw);
  return tree_of(*app);
}

}  // namespace headgate::cli
