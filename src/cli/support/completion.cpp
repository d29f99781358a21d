
#include <algorithm>
#include <optional>
#include <sstream>

#include "base/split.hpp"
#include "cli/commands.hpp"
#include "cli/parse.hpp"
#include "cli/share/daemon.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

constexpr const char* kBash = R"sh(# bash completion for headgate
_headgate() {
  local -a words=()
  local word rest current=${COMP_WORDS[COMP_CWORD]#=}
  # Bash makes three words of --option=value.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if ((${#words[@]} > 0)) && [[ $word == = || ${words[-1]} == *= ]]; then words[-1]+=$word; else words+=("$word"); fi
  done
  COMPREPLY=()
  while IFS=$'\t' read -r word rest; do
    case $word in
      :file) COMPREPLY+=($(compgen -A file -- "$current")) ;;
      :command) ((rest == ${#words[@]} + 1)) && COMPREPLY+=($(compgen -A command -- "$current"))
        COMPREPLY+=($(compgen -A file -- "$current")) ;;
      ?*) COMPREPLY+=("$word") ;;
    esac
  done <<<"$("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)"
}
complete -o default -F _headgate headgate
)sh";

constexpr const char* kZsh = R"sh(#compdef headgate
_headgate() {
  local line
  local -a described
  for line in ${(f)"$($words[1] __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      :file) _files ;;
      :command*)
        shift $((${line#*$'\t'} - 1)) words
        ((CURRENT -= ${line#*$'\t'} - 1))
        if ((CURRENT == 1)); then _command_names -e; else _normal; fi
        return ;;
      *) described+=("${line/$'\t'/:}") ;;
    esac
  done
  [[ $words[CURRENT] == --*=* ]] && compset -P '*='
  (($#described > 0)) && _describe word described
}
# Sourced, it registers itself; as a file of fpath named _headgate it is called.
if [[ $funcstack[1] == _headgate ]]; then
  _headgate "$@"
else
  (($+functions[compdef])) && compdef _headgate headgate
fi
)sh";

constexpr const char* kFish = R"sh(# fish completion for headgate
function __headgate_complete
  set -l tokens (commandline -opc)
  set -l current (commandline -ct)
  set -l option (string match -r -- '^--[^=]*=' "$current")
  for line in ($tokens[1] __complete $tokens[2..] "$current" 2>/dev/null)
    switch $line
      case :file
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current")
      case ':command*'
        complete -C (string join ' ' -- (string escape -- $tokens[(string split \t -- $line)[2]..]) "$current")
      case '*'
        printf '%s\n' "$option$line"
    end
  end
end
complete -c headgate -f -a '(__headgate_complete)'
)sh";

Result<int> completion(const Call&, const std::string& shell) {
  if (shell == "bash") return show(std::string(kBash));
  if (shell == "zsh") return show(std::string(kZsh));
  if (shell == "fish") return show(std::string(kFish));
  return fail(ErrorCode::usage, "completion: no script for the shell '" + shell + "'", "accepted: bash, zsh or fish");
}

bool is_operand(const Option& option) { return !option.names.starts_with('-'); }

std::vector<std::string> share_names() {
  const auto daemon = find_daemon();
  if (!daemon || !*daemon) return {};
  const auto reply = ask(**daemon, "GET", "/v1/shares", {}, std::chrono::milliseconds(500));
  const auto shares =
      reply ? snapshot::from_json<std::vector<snapshot::Share>>(*reply) : std::unexpected(reply.error());
  std::vector<std::string> names;
  if (shares)
    for (const auto& share : *shares) names.push_back(share.name);
  return names;
}

// Reads the words before the last one, and answers what the last may become.
class Completer {
 public:
  Completer(const Commands& table, const std::vector<std::string>& words) : table_(table), words_(words) { enter(""); }

  std::string answer() {
    const std::size_t last = words_.size() - 1;
    start_ = words_[last];
    for (std::size_t i = 0; i < last; ++i) {
      const std::string& word = words_[i];
      const bool starts_program = options_->rest == Rest::program;
      if (word == "--") return starts_program ? command_line_from(i + 3) : "";
      if (word.starts_with('-')) {
        const Option* option = option_of(word);
        const bool takes_next = option != nullptr && (option->takes == Takes::one || option->takes == Takes::some) &&
                                word.find('=') == std::string::npos;
        if (takes_next && ++i == last) return values(option);
      } else if (starts_program) {
        return command_line_from(i + 2);
      } else if (!enter(path_.empty() ? word : path_ + " " + word)) {
        if (path_.empty() || !has_action_ || options_->rest == Rest::unread) return {};
        ++operands_;
      }
    }
    if (const std::size_t equals = start_.find('='); start_.starts_with('-') && equals != std::string::npos) {
      const Option* option = option_of(start_);
      start_.erase(0, equals + 1);
      return values(option);
    }
    if (start_.starts_with('-')) return options();
    if (options_->rest == Rest::program) return command_line_from(last + 2);
    return path_.empty() || !has_action_ ? commands() : values(operand());
  }

 private:
  static std::string command_line_from(std::size_t place) { return ":command\t" + std::to_string(place) + "\n"; }

  // Goes to a command of the table; "": headgate bare.
  bool enter(const std::string& path) {
    const auto found = std::ranges::find(table_, path.empty() ? "status" : path, &Command::name);
    if (found == table_.end()) return false;
    path_ = path;
    has_action_ = found->add_options != nullptr;
    options_.emplace(unused_);
    if (has_action_) (void)found->add_options(*options_);
    if (has_action_) add_common_options(*options_);
    return true;
  }

  const Option* option_of(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    const auto found = std::ranges::find_if(options_->all, [&](const Option& option) {
      const auto names = split(option.names, ',');
      return std::ranges::find(names, name) != names.end();
    });
    return found == options_->all.end() ? nullptr : &*found;
  }
  const Option* operand() const {
    std::size_t place = 0;
    for (const Option& option : options_->all)
      if (is_operand(option) && (place++ == operands_ || option.takes != Takes::one)) return &option;
    return nullptr;
  }

  // Adds a candidate, on a line, if it begins with what is written.
  void offer(const std::string& word, const std::string& summary = {}) {
    if (word.starts_with(start_)) text_ += word + (summary.empty() ? "" : "\t" + summary) + "\n";
  }
  std::string values(const Option* option) {
    std::istringstream in(option == nullptr ? "" : option->completes);
    for (std::string word; in >> word;) {
      if (word == ":file") text_ += word + "\n";
      else if (word == ":share")
        for (const std::string& name : share_names()) offer(name);
      else if (word == ":format")
        for (const Format format : options_->formats) offer(format_name(format));
      else offer(word);
    }
    return text_;
  }
  std::string options() {
    for (const Option& option : options_->all)
      if (!option.hidden && option.renamed_to.empty() && !is_operand(option))
        for (const std::string& name : split(option.names, ',')) offer(name, option.summary);
    return text_;
  }
  std::string commands() {
    const std::string above = path_.empty() ? "" : path_ + " ";
    for (const Command& command : table_)
      if (command.name.starts_with(above) && command.name.find(' ', above.size()) == std::string::npos)
        offer(command.name.substr(above.size()), command.summary);
    return text_;
  }

  const Commands& table_;
  const std::vector<std::string>& words_;
  Call unused_;
  std::string path_, start_, text_;
  std::optional<Options> options_;
  bool has_action_ = false;
  std::size_t operands_ = 0;
};

}  // namespace

std::string completions(const Commands& table, const std::vector<std::string>& words) {
  return words.empty() ? std::string() : Completer(table, words).answer();
}

Commands completion_commands() {
  return {command<std::string>(
      kPlumbing, "completion", "print a completion script for a shell",
      [](Options& options, std::string& shell) {
        options.operand("SHELL", "bash, zsh or fish", shell).completes = "bash zsh fish";
        options.formats = {Format::table};  // a script has no JSON form
      },
      completion, Reads::nothing)};
}

}  // namespace headgate::cli
