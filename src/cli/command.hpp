// A command of headgate: its name, its help, its options and what it does. A new command takes a file that returns it
// and a line in commands.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// What every command is given beside its own options. Options before the command's name store here too.
struct Call {
  std::string command;  // "share create"
  Voice voice;
  std::optional<std::string> simulate;       // --sim[=PROFILE]; "" without a profile
  std::optional<std::uint64_t> interval_ms;  // --interval
  std::optional<std::uint64_t> watch_ms;     // --watch: repeat the view
  std::string config_path;                   // --config; "" for the usual place
  config::Reading configuration;             // as the command's Reads says
  std::vector<std::string> words;            // as the command's Rest says
};

// The values that an option takes; a flag takes yes or no, and alone means yes.
enum class Takes { flag, one, at_most_one, some, any };

struct Option {
  std::string names;    // "-m,--mem"; an operand's begins with no dash: "NAME"
  std::string type;     // as help shows it: "SIZE"
  std::string summary;  // one line of help
  Takes takes = Takes::one;
  // Stores the values; called if the option was written. A left-out value of at_most_one is "". Errors: usage.
  std::function<Result<void>(const std::vector<std::string>& values)> store;
  bool required = false;
  bool hidden = false;          // from help and completion
  std::string renamed_to = {};  // the option is the last release's name of this one
  // Values for completion, with blanks; ":file", ":share" and ":format" stand for those that there are.
  std::string completes = {};
};

// What a command does with words that are no options: refuse them, take them as a program's command line (which may
// stand behind "--"), or pass on all that stands behind the command's name unread.
enum class Rest { refused, program, unread };

// The options of one command, in the order of its help. Each returned reference is good until the next option.
class Options {
 public:
  explicit Options(Call& given) : call(given) {}

  Option& add(Option option) { return all.emplace_back(std::move(option)); }
  // An option of one value, which `store` is given.
  Option& value(std::string names, std::string type, std::string summary,
                std::function<Result<void>(const std::string& value)> store);
  // `to`: a std::string or an optional one.
  template <typename Text>
  Option& text(std::string names, std::string type, std::string summary, Text& to) {
    return value(std::move(names), std::move(type), std::move(summary), [&to](const std::string& text) -> Result<void> {
      to = text;
      return {};
    });
  }
  // Has to be written, without an option's name.
  Option& operand(std::string name, std::string summary, std::string& to);
  Option& list(std::string names, std::string type, std::string summary, Takes takes, std::vector<std::string>& to);
  Option& flag(std::string names, std::string summary, std::function<void(bool)> store);
  Option& flag(std::string names, std::string summary, bool& to) {
    return flag(std::move(names), std::move(summary), [&to](bool on) { to = on; });
  }
  // These are in the Call.
  void simulated();                                               // --sim[=PROFILE]
  void interval(const std::string& what, const char* otherwise);  // --interval, `what` it is the time of
  void watch();                                                   // --watch[=TIME]
  void lists();                                                   // all forms; --columns of csv

  Call& call;
  std::vector<Option> all;
  std::vector<Format> formats = {Format::table, Format::json};
  Rest rest = Rest::refused;
  std::string footer;
  std::string for_several;  // what to do instead of naming more than one object
};

// Whether a command reads the configuration. `sound`: it does not start if there is a mistake in it.
enum class Reads { nothing, configuration, sound };

// Headings in --help.
inline constexpr const char* kStart = "Start";
inline constexpr const char* kLook = "Look";
inline constexpr const char* kManage = "Manage";
inline constexpr const char* kContainers = "Containers";
inline constexpr const char* kPlumbing = "Plumbing";
inline constexpr const char* kCommands = "Commands";  // of a command below another

// Returns the exit status. An Error is printed and becomes the exit status of its code.
using Action = std::function<Result<int>(const Call&)>;

struct Command {
  std::string group, name, summary;
  // Declares the options and returns what runs with them. Empty: the command only has others below it ("share").
  std::function<Action(Options&)> add_options;
  Reads reads = Reads::sound;
};
using Commands = std::vector<Command>;

// A command whose options are stored in an `Own`, which it is given.
template <typename Own>
Command command(std::string group, std::string name, std::string summary,
                std::function<void(Options&, Own&)> add_options,
                std::function<Result<int>(const Call&, const Own&)> run, Reads reads = Reads::sound) {
  return {.group = std::move(group),
          .name = std::move(name),
          .summary = std::move(summary),
          .add_options = [add_options = std::move(add_options), run = std::move(run)](Options& options) -> Action {
            const auto own = std::make_shared<Own>();  // the options' closures and the action store and read it
            add_options(options, *own);
            return [own, run](const Call& call) { return run(call, *own); };
          },
          .reads = reads};
}

// A command whose options, if it has some, are all in the Call.
[[nodiscard]] Command plain_command(
    std::string group, std::string name, std::string summary, Action run, Reads reads = Reads::sound,
    std::function<void(Options&)> add_options = [](Options&) {});
// "share": the name of the commands below it.
[[nodiscard]] Command parent_command(std::string group, std::string name, std::string summary);

// Parses "30s", "5m", "1h", "2d", up to a year, to nanoseconds. Errors: usage, naming the option and what is accepted.
[[nodiscard]] Result<std::uint64_t> time_option(const std::string& option, const std::string& text);

// Prints a command's output. Errors: the text's; failed if standard output is closed or full.
[[nodiscard]] Result<int> show(const Result<std::string>& text);

}  // namespace headgate::cli
