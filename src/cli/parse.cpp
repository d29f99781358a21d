#include "cli/parse.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>

#include "base/did_you_mean.hpp"
#include "base/joined.hpp"
#include "install/source.hpp"

namespace headgate::cli {
namespace {

constexpr const char* kOutput = "Output";  // heading of common options in --help

// argv up to the first "--", and the words after it.
struct Split {
  std::vector<std::string> ours, behind;
  bool marked = false;
};

Split split_at_mark(int argc, const char* const* argv) {
  const auto* const mark = std::find(argv + 1, argv + argc, std::string_view("--"));
  const bool marked = mark != argv + argc;
  return {{argv + 1, mark}, {mark + marked, argv + argc}, marked};
}

// The help of a command has one line for the options that all commands have; `headgate --help` describes them.
struct CommandFormatter : CLI::Formatter {
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group != kOutput) return CLI::Formatter::make_group(group, is_positional, options);
    return "Also: -o FORM, --json, --no-color, --ascii, -q, -v, --config FILE (see headgate --help)\n";
  }
};

// The options that every command has, as written.
struct Common {
  std::string output = "table";
  bool json = false, no_colour = false;
};

void add_common(Options& options, Common& common) {
  Voice& voice = options.call.voice;
  options
      .text("-o,--output", "FORM", "table, json; commands that list things also have wide, jsonl (a line each) and csv",
            common.output)
      .completes = ":format";
  options.flag("--json", "the same as --output json", common.json);
  options.flag("--no-color,--no-colour", "no colours (also: NO_COLOR)", common.no_colour);
  options.flag("--ascii", "nothing beyond ASCII", voice.ascii);
  options.flag("-q,--quiet", "no notes on stderr", voice.quiet);
  options.flag("-v,--verbose", "notes on stderr even when it is not a terminal", voice.verbose);
  options.text("--config", "FILE", "configuration file instead of /etc/headgate/config.toml", options.call.config_path)
      .completes = ":file";
}

// `command`: empty for headgate itself.
std::string help_of(const std::string& command) {
  return "see 'headgate " + (command.empty() ? "" : command + " ") + "--help'";
}

// The table of commands as CLI11 has it. Parsing stores the values of options.
class Grammar {
 public:
  Grammar(const Commands& commands, Parsed& parsed) : parsed_(parsed) {
    app.require_subcommand(0, 1);
    app.set_help_flag("-h,--help", "print this help");
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    formatter_->label("SUBCOMMAND", "COMMAND");
    for (const Command& command : commands) add(command);
    // Behind the commands, which would inherit it.
    app.footer(
        "Examples:\n"
        "  headgate demo                                              six tenants on a simulated GPU\n"
        "  headgate run --mem 8GiB --compute 50% -- python train.py   a program in its own share\n"
        "  headgate why                                               what was refused or had to wait, and what helps");
    app.add_flag("--version")->description("print the version");
  }

  // The command of an App, with its options.
  struct Declared {
    Options options;
    Action action;
    Reads reads = Reads::sound;
  };
  const Declared& declared(const CLI::App* of) const { return declared_.at(of); }
  // Returns what helps if the command's line names too much.
  std::string hint(const CLI::App* of, const std::string& name) const {
    const auto found = declared_.find(of);
    const bool said = found != declared_.end() && !found->second.options.for_several.empty();
    return said ? found->second.options.for_several : help_of(name);
  }

  CLI::App app{"headgate meters NVIDIA GPUs: shares of memory and compute.", "headgate"};
  Common common;
  std::optional<Error> trouble;  // the first option's that could not be stored

 private:
  void add(const Command& command) {
    const std::size_t blank = command.name.find(' ');
    CLI::App* above = blank == std::string::npos ? &app : app.get_subcommand(command.name.substr(0, blank));
    CLI::App* made = above->add_subcommand(command.name.substr(blank + 1), command.summary)->group(command.group);
    if (!command.add_options) {
      made->require_subcommand(1);
      return;
    }
    made->formatter(formatter_);
    declare(command, *made);
    if (command.name == "status") declare(command, app);  // headgate bare
  }

  void declare(const Command& command, CLI::App& to) {
    Options options(parsed_.call);
    add_common(options, common);
    for (const Option& option : options.all) declare(option, to)->group(kOutput);
    Declared made{.options = Options(parsed_.call), .action = {}, .reads = command.reads};
    made.action = command.add_options(made.options);
    for (const Option& option : made.options.all) declare(option, to);
    if (made.options.rest != Rest::refused) to.prefix_command();
    if (!made.options.footer.empty()) to.footer(made.options.footer);
    declared_.emplace(&to, std::move(made));
  }

  CLI::Option* declare(const Option& option, CLI::App& to) {
    const auto store = [this, option](std::vector<std::string> values) {
      // CLI11 has "{}" for a value that was left out.
      if (option.takes == Takes::at_most_one) std::ranges::replace(values, std::string("{}"), std::string());
      if (auto stored = option.store(values); !stored && !trouble) trouble = stored.error();
      if (!option.renamed_to.empty())
        parsed_.warnings.push_back(option.names + " is now called " + option.renamed_to +
                                   "; the next release does not know the old name");
      return true;
    };
    CLI::Option* made = to.add_option(option.names, store, option.summary)->type_name(option.type);
    if (option.takes == Takes::flag) made->expected(0)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (option.takes == Takes::at_most_one) made->expected(0, 1);
    if (option.takes == Takes::some) made->expected(1, -1)->allow_extra_args();
    if (option.takes == Takes::any) made->expected(0, -1)->allow_extra_args();
    if (option.hidden || !option.renamed_to.empty()) made->group("");
    return made->required(option.required);
  }

  Parsed& parsed_;
  const std::shared_ptr<CommandFormatter> formatter_ = std::make_shared<CommandFormatter>();
  std::map<const CLI::App*, Declared> declared_;
};

// Returns the innermost command given, and sets `name` to the full name: "sim truth".
const CLI::App* chosen(const CLI::App& app, std::string& name) {
  const CLI::App* at = &app;
  for (auto inner = at->get_subcommands(); !inner.empty(); inner = at->get_subcommands()) {
    at = inner.front();
    name += (name.empty() ? "" : " ") + at->get_name();
  }
  return at;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void fill_voice(Voice& voice, bool no_colour) {
  const bool dumb = !is_set("TERM") || std::string_view(std::getenv("TERM")) == "dumb";
  voice.colour = ::isatty(STDOUT_FILENO) == 1 && !no_colour && !is_set("NO_COLOR") && !dumb;
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) voice.columns = size.ws_col;
  voice.talk = !voice.quiet && (voice.verbose || ::isatty(STDERR_FILENO) == 1);
}

Result<Format> format_from(const std::string& command, const std::vector<Format>& formats, const Common& common) {
  const std::string name = common.json ? "json" : common.output;
  std::string accepted;
  for (const Format format : formats) {
    const std::string known = format_name(format);
    if (known == name) return format;
    accepted += (accepted.empty() ? "" : format == formats.back() ? " or " : ", ") + known;
  }
  return fail(ErrorCode::usage, command + ": output format '" + harmless(name) + "' is not supported",
              "accepted: " + accepted);
}

// Returns the program's command line: all words after "--", or from the first word that is not an option of ours.
Result<std::vector<std::string>> program_words(const CLI::App& app, const Split& written) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && (written.marked || words.front().starts_with("-"))) {
    const bool option = words.front().starts_with("-");
    return fail(ErrorCode::usage,
                (option ? "run has no option '" : "run takes no argument '") + harmless(words.front()) + "'",
                "see 'headgate run --help'; write '--' before the command");
  }
  return written.marked ? written.behind : words;
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!inner->get_group().empty()) all.push_back(inner->get_name());
  return all;
}

std::string format_accepted(const CLI::App& app) { return "accepted: " + joined(words_of(app), ", "); }

std::string meant(const std::string& typed, const std::vector<std::string>& words) {
  const std::string near = did_you_mean(typed, words);
  return near.empty() ? "" : "did you mean " + near + "? ";
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames())
      if (!option->get_group().empty()) all.push_back("--" + name);
  return all;
}

std::unexpected<Error> unknown_word(const Grammar& grammar) {
  std::string name;
  const CLI::App& app = grammar.app;
  const CLI::App* at = chosen(app, name);
  const auto left = app.remaining(true);
  const std::string text = left.empty() ? "" : harmless(left.front());
  const std::string owner = name.empty() ? "headgate" : name;
  if (text.starts_with("-")) {
    const std::string option = text.substr(0, text.find('='));
    return fail(ErrorCode::usage, owner + " has no option '" + text + "'",
                meant(option, options_of(*at)) + help_of(name));
  }
  const auto words = words_of(*at);
  return fail(ErrorCode::usage, owner + (words.empty() ? " takes no argument '" : " has no command '") + text + "'",
              words.empty() ? grammar.hint(at, name) : meant(text, words) + format_accepted(*at));
}

// Formats an option as help shows it.
std::string help_line_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.get_name() + (type.empty() ? "" : " " + type) + ": " + option.get_description();
}

// Refuses empty values: a script's unset variable leaves "" behind, which would otherwise mean all shares, any GPU or
// no image root. Options with an optional value are skipped, because CLI11 reports a left-out value as "".
Result<void> refuse_empty(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() == 0 || std::ranges::find(option->results(), "") == option->results().end())
      continue;
    return fail(ErrorCode::usage, (word.empty() ? "" : word + ": ") + option->get_name() + " '' is empty",
                help_line_of(*option));
  }
  return {};
}

// Reports an option that is written twice, or without its value (last on the line, or "OPTION="). CLI11's own messages
// only count values.
std::unexpected<Error> unreadable(const Grammar& grammar, const CLI::App& app, const std::string& word,
                                  const CLI::ParseError& error) {
  const std::string what = error.what(), before = word.empty() ? "" : word + ": ";
  const std::string option = what.substr(0, what.find(':'));
  if (what.find(": At Most 1 required") != std::string::npos)
    return fail(ErrorCode::usage, before + option + " is written more than once", grammar.hint(&app, word));
  if (!what.ends_with(" missing")) return fail(ErrorCode::usage, before + what, help_of(word));
  for (const CLI::Option* one : app.get_options())
    if (one->check_name(option))
      return fail(ErrorCode::usage, before + one->get_name() + " has no value", help_line_of(*one));
  return fail(ErrorCode::usage, before + what, help_of(word));
}

// Reports what CLI11 could not parse.
std::unexpected<Error> misunderstood(const Grammar& grammar, const CLI::ParseError& error) {
  std::string name;
  const CLI::App& app = grammar.app;
  const CLI::App* at = chosen(app, name);
  const auto left = app.remaining(true);
  if (at != &app && !words_of(*at).empty()) {
    if (!left.empty() && !left.front().starts_with("-")) return unknown_word(grammar);
    return fail(ErrorCode::usage, name + " needs a command", format_accepted(*at));
  }
  // An unknown option is reported before a missing share name: what was written comes first.
  if (!left.empty() && left.front().starts_with("-")) return unknown_word(grammar);
  return unreadable(grammar, *at, name, error);
}

}  // namespace

Result<Parsed> parse(const Commands& commands, int argc, const char* const* argv) {
  Parsed parsed;
  Call& call = parsed.call;
  Grammar grammar(commands, parsed);
  CLI::App& app = grammar.app;
  const Split written = split_at_mark(argc, argv);
  try {
    app.parse(std::vector<std::string>(written.ours.rbegin(), written.ours.rend()));  // CLI11 expects them reversed
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    chosen(app, call.command);
    const std::string usage = "Usage: headgate run [OPTIONS]";
    if (call.command == "run")
      parsed.help->replace(parsed.help->find(usage), usage.size(), usage + " -- COMMAND [ARGUMENTS...]");
    return parsed;
  } catch (const CLI::ExtrasError&) {
    return unknown_word(grammar);
  } catch (const CLI::ParseError& error) {
    return misunderstood(grammar, error);
  }
  const CLI::App* at = chosen(app, call.command);
  TRY(refuse_empty(app, call.command));
  TRY(refuse_empty(*at, call.command));
  // CLI11 takes a flag's empty value for none.
  if (std::ranges::count(written.ours, "--sim=") > std::ranges::count(at->remaining(), "--sim="))
    return fail(ErrorCode::usage, (call.command.empty() ? "" : call.command + ": ") + "--sim has no value",
                "--sim=PROFILE: " + install::profile_names(", ") + " or a .toml file");
  if (app.count("--version") > 0) at = app.get_subcommand(call.command = "version");
  else if (call.command.empty()) call.command = "status";
  if (grammar.trouble) return std::unexpected(*grammar.trouble);
  const auto& [options, action, reads] = grammar.declared(at);
  fill_voice(call.voice, grammar.common.no_colour);
  call.voice.format = TRY(format_from(call.command, options.formats, grammar.common));
  if (!call.voice.columns_of_csv.empty() && call.voice.format != Format::csv)
    return fail(ErrorCode::usage, call.command + ": --columns needs --output csv",
                "such as: headgate " + call.command + " -o csv --columns name,memory_used_bytes");
  if (options.rest == Rest::program) call.words = TRY(program_words(*at, written));
  else if (options.rest == Rest::unread)
    call.words.assign(std::find(argv + 1, argv + argc, std::string_view(call.command)) + 1, argv + argc);
  else if (written.marked)
    return fail(ErrorCode::usage, "'--' and a command stand only behind 'run'",
                "such as: headgate run --mem 8GiB -- python train.py");
  parsed.run = action;
  parsed.reads = reads;
  return parsed;
}

Voice voice_of_arguments(int argc, const char* const* argv) {
  Voice voice;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i], before = argv[i - 1];
    const bool is_form = before == "-o" || before == "--output";
    if (word == "--json" || word.starts_with("--output=json") || word.starts_with("-ojson") ||
        (is_form && word.starts_with("json")))
      voice.format = Format::json;
  }
  return voice;
}

void add_common_options(Options& options) {
  Common unused;
  add_common(options, unused);
}

}  // namespace headgate::cli
