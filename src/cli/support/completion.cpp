#include "cli/support/completion.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "cli/term/output_format.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

std::string candidates(const CommandTree& tree) {
  std::string all;
  for (const auto& word : tree.commands) all += (all.empty() ? "" : " ") + word.name;
  return all + (all.empty() || tree.options.empty() ? "" : " ") + joined(tree.options, " ");
}

// Writes a case branch for every command path, longest first.
void bash_branches(const CommandTree& tree, const std::string& path, std::string& out) {
  for (const auto& word : tree.commands) {
    const std::string inner = path.empty() ? word.name : path + " " + word.name;
    bash_branches(word, inner, out);
    std::string extra = word.name == "completion" ? " bash zsh fish" : "";
    out += "    \"" + inner + "\") words=\"" + candidates(word) + extra + "\" ;;\n";
  }
}

// "-i | --gpu | ...": collects the options of all commands that take a value.
void gather_valued(const CommandTree& tree, std::set<std::string>& out) {
  out.insert(tree.valued.begin(), tree.valued.end());
  for (const auto& word : tree.commands) gather_valued(word, out);
}

std::string valued_pattern(const CommandTree& tree) {
  std::set<std::string> all;
  gather_valued(tree, all);
  std::string pattern;
  for (const auto& option : all) pattern += (pattern.empty() ? "" : " | ") + option;
  return pattern;
}

// "sim | config | ...": commands that have subcommands.
std::string parents(const CommandTree& tree) {
  std::string pattern;
  for (const auto& word : tree.commands) {
    if (!word.commands.empty()) pattern += (pattern.empty() ? "" : " | ") + word.name;
  }
  return pattern;
}

std::string bash(const CommandTree& tree) {
  std::string branches;
  bash_branches(tree, "", branches);
  return R"(# bash completion for headgate
_headgate() {
  local current=${COMP_WORDS[COMP_CWORD]} path="" words i inner="" option=""
  # Bash makes three words of --option=value.
  [[ $current == = ]] && current=""
  for ((i = 1; i < COMP_CWORD; i++)); do
    option=""
    case ${COMP_WORDS[i]} in
      --) COMPREPLY=($(compgen -A command -A file -- "$current")); return ;;
      =) option=${COMP_WORDS[i - 1]}; i=$((i + 1)) ;;
      )" +
         valued_pattern(tree) + R"()
        option=${COMP_WORDS[i]}
        [[ ${COMP_WORDS[i + 1]} == = ]] && i=$((i + 1))
        i=$((i + 1)) ;;
      -*) ;;
      *)
        case "$path" in
          "") path=${COMP_WORDS[i]} ;;
          )" +
         parents(tree) + R"() path="$path ${COMP_WORDS[i]}" ;;
          *) inner=1 ;;
        esac ;;
    esac
    ((i >= COMP_CWORD)) || option=""
  done
  [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && option=${COMP_WORDS[COMP_CWORD - 1]}
  case "$option" in
    "") ;;
    -o | --output) COMPREPLY=($(compgen -W ")" +
         joined(form_names(), " ") + R"(" -- "$current")); return ;;
    --sim) COMPREPLY=($(compgen -W "h200 h200-cuda13 h200-r615 l40s-x2 tiny" -A file -- "$current")); return ;;
    --config | --symbols) COMPREPLY=($(compgen -A file -- "$current")); return ;;
    *) return ;;
  esac
  if [[ $path == run && -n $inner ]]; then
    COMPREPLY=($(compgen -A file -- "$current"))
    return
  fi
  case "$path" in
    "") words=")" +
         candidates(tree) + "\" ;;\n" + branches + R"(    *) words="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $path == run && $current != -* ]]; then
    COMPREPLY+=($(compgen -A command -- "$current"))
  fi
}
complete -o default -F _headgate headgate
)";
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

// Returns the words accepted at this place, including those that are not commands.
std::vector<CommandTree> words_at(const CommandTree& word) {
  if (word.name != "completion") return word.commands;
  std::vector<CommandTree> shells(3);
  for (std::size_t i = 0; i < shells.size(); ++i) shells[i].name = std::array{"bash", "zsh", "fish"}[i];
  return shells;
}

// Writes a case branch for every command path.
void zsh_branches(const CommandTree& tree, const std::string& path, std::string& out) {
  out += "    " + quoted(path) + ")\n      options=(" + joined(tree.options, " ") + ")\n      described=(";
  for (const auto& word : words_at(tree))
    out += " " + quoted(word.name + (word.summary.empty() ? "" : ":" + word.summary));
  out += " ) ;;\n";
  for (const auto& word : tree.commands) zsh_branches(word, path.empty() ? word.name : path + " " + word.name, out);
}

std::string zsh(const CommandTree& tree) {
  std::string branches;
  zsh_branches(tree, "", branches);
  return R"(#compdef headgate
_headgate() {
  local at="" value="" i command=0
  local -a options described
  for ((i = 2; i < CURRENT; i++)); do
    if [[ -n $value ]]; then
      value=""
      continue
    fi
    case $words[i] in
      --) command=$((i + 1)); break ;;
      )" +
         valued_pattern(tree) +
         R"() value=$words[i] ;;
      -*) ;;
      *)
        if [[ $at == run ]]; then
          command=$i
          break
        fi
        at=${at:+$at }$words[i] ;;
    esac
  done
  if ((command > 0)); then
    shift $((command - 1)) words
    ((CURRENT -= command - 1))
    _normal
    return
  fi
  if [[ $words[CURRENT] == --*=* ]]; then
    value=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  case $value in
    "") ;;
    -o | --output) compadd -- )" +
         joined(form_names(), " ") +
         R"(; return ;;
    --sim) compadd -- h200 h200-cuda13 h200-r615 l40s-x2 tiny; _files; return ;;
    --config | --symbols) _files; return ;;
    *) return ;;
  esac
  case $at in
)" + branches +
         R"(  esac
  if [[ $words[CURRENT] == -* ]]; then
    compadd -- $options
  elif [[ $at == run ]]; then
    _command_names -e
  elif (($#described > 0)); then
    _describe word described
  fi
}
# Sourced, it registers itself; as a file of fpath named _headgate it is called.
if [[ $funcstack[1] == _headgate ]]; then
  _headgate "$@"
else
  (($+functions[compdef])) && compdef _headgate headgate
fi
)";
}

void fish_lines(const CommandTree& tree, const std::string& path, std::string& out) {
  const std::string here = "complete -c headgate -n " + quoted("__headgate_at " + quoted(path));
  for (const auto& word : words_at(tree))
    out += here + " -a " + word.name + (word.summary.empty() ? "" : " -d " + quoted(word.summary)) + "\n";
  for (const auto& option : tree.options) {
    out += here + (option.starts_with("--") ? " -l " + option.substr(2) : " -s " + option.substr(1));
    if (option == "-o" || option == "--output") out += " -x -a " + quoted(joined(form_names(), " "));
    else if (option == "--sim") out += " -a 'h200 h200-cuda13 h200-r615 l40s-x2 tiny'";
    else if (option == "--config" || option == "--symbols") out += " -r -F";
    else if (std::ranges::find(tree.valued, option) != tree.valued.end()) out += " -x";
    out += "\n";
  }
  for (const auto& word : tree.commands) fish_lines(word, path.empty() ? word.name : path + " " + word.name, out);
}

std::string fish(const CommandTree& tree) {
  std::string valued = valued_pattern(tree);
  for (std::size_t at = 0; (at = valued.find(" |", at)) != std::string::npos;) valued.erase(at, 2);
  std::string out = R"(# fish completion for headgate
# The words so far, without options and their values, one a line; then, below "--", the command that run is to start.
function __headgate_words
  set -l tokens (commandline -opc)
  set -l path
  set -l value no
  for i in (seq 2 (count $tokens))
    if test $value = yes
      set value no
      continue
    end
    switch $tokens[$i]
      case --
        printf '%s\n' $path -- $tokens[(math $i + 1)..]
        return
      case )" + valued +
                    R"(
        set value yes
      case '-*'
      case '*'
        if test "$path" = run
          printf '%s\n' $path -- $tokens[$i..]
          return
        end
        set -a path $tokens[$i]
    end
  end
  printf '%s\n' $path
end
function __headgate_at
  set -l path (__headgate_words)
  test "$path" = "$argv[1]"
end
function __headgate_runs
  set -l path (__headgate_words)
  test "$path[1]" = run; and begin; contains -- -- $path; or not string match -q -- '-*' (commandline -ct); end
end
function __headgate_command
  set -l path (__headgate_words)
  complete -C (string join ' ' -- (string escape -- $path[3..]) (commandline -ct))
end
complete -c headgate -f
complete -c headgate -n __headgate_runs -a '(__headgate_command)'
)";
  fish_lines(tree, "", out);
  return out;
}

}  // namespace

Result<std::string> completion_script(std::string_view shell, const CommandTree& tree) {
  if (shell == "bash") return bash(tree);
  if (shell == "zsh") return zsh(tree);
  if (shell == "fish") return fish(tree);
  return fail(ErrorCode::usage, "completion: no script for the shell '" + std::string(shell) + "'",
              "accepted: bash, zsh or fish");
}

}  // namespace headgate::cli
