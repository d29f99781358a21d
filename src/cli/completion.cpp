#include "cli/completion.hpp"

#include <set>

namespace headgate::cli {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : " ") + text;
  return all;
}

std::string candidates(const WordTree& tree) {
  std::string all;
  for (const auto& word : tree.words) all += (all.empty() ? "" : " ") + word.name;
  return all + (all.empty() || tree.options.empty() ? "" : " ") + joined(tree.options);
}

// A case branch for every path of words, longest first.
void bash_branches(const WordTree& tree, const std::string& path, std::string& out) {
  for (const auto& word : tree.words) {
    const std::string inner = path.empty() ? word.name : path + " " + word.name;
    bash_branches(word, inner, out);
    std::string extra = word.name == "completion" ? " bash zsh fish" : "";
    out += "    \"" + inner + "\") words=\"" + candidates(word) + extra + "\" ;;\n";
  }
}

// "-i | --gpu | ...": every option of any word that takes a value.
void gather_valued(const WordTree& tree, std::set<std::string>& out) {
  out.insert(tree.valued.begin(), tree.valued.end());
  for (const auto& word : tree.words) gather_valued(word, out);
}

std::string valued_pattern(const WordTree& tree) {
  std::set<std::string> all;
  gather_valued(tree, all);
  std::string pattern;
  for (const auto& option : all) pattern += (pattern.empty() ? "" : " | ") + option;
  return pattern;
}

std::string bash(const WordTree& tree) {
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
          sim | config) path="$path ${COMP_WORDS[i]}" ;;
          *) inner=1 ;;
        esac ;;
    esac
    ((i >= COMP_CWORD)) || option=""
  done
  [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && option=${COMP_WORDS[COMP_CWORD - 1]}
  case "$option" in
    "") ;;
    -o | --output) COMPREPLY=($(compgen -W "table json" -- "$current")); return ;;
    --sim) COMPREPLY=($(compgen -W "h200 l40s-x2 tiny" -A file -- "$current")); return ;;
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

std::string zsh(const WordTree& tree) {
  std::string words, branches;
  for (const auto& word : tree.words) {
    words += "    " + quoted(word.name + ":" + word.summary) + "\n";
    const std::string extra = word.name == "completion" ? " bash zsh fish" : "";
    branches += "    " + word.name + ") compadd -- " + candidates(word) + extra + " ;;\n";
  }
  return R"(#compdef headgate
_headgate() {
  local -a words_of_headgate
  words_of_headgate=(
)" + words +
         R"(  )
  if (( CURRENT == 2 )); then
    _describe 'word' words_of_headgate
    return
  fi
  if [[ ${words[2]} == run && ${words[(I)--]} -gt 0 && ${words[(I)--]} -lt $CURRENT ]]; then
    shift ${words[(I)--]} words
    (( CURRENT = ${#words} ))
    _normal
    return
  fi
  case ${words[2]} in
)" + branches +
         R"(  esac
}
_headgate "$@"
)";
}

void fish_lines(const WordTree& tree, const std::string& condition, std::string& out) {
  for (const auto& option : tree.options) {
    const bool is_long = option.starts_with("--");
    out += "complete -c headgate -n " + quoted(condition) +
           (is_long ? " -l " + option.substr(2) : " -s " + option.substr(1)) + "\n";
  }
}

std::string fish(const WordTree& tree) {
  std::string out = "# fish completion for headgate\ncomplete -c headgate -f\n";
  for (const auto& word : tree.words) {
    out += "complete -c headgate -n __fish_use_subcommand -a " + word.name + " -d " + quoted(word.summary) + "\n";
    const std::string condition = "__fish_seen_subcommand_from " + word.name;
    for (const auto& inner : word.words)
      out +=
          "complete -c headgate -n " + quoted(condition) + " -a " + inner.name + " -d " + quoted(inner.summary) + "\n";
    if (word.name == "completion") out += "complete -c headgate -n " + quoted(condition) + " -a 'bash zsh fish'\n";
    if (word.name == "run") out += "complete -c headgate -n " + quoted(condition) + " -F\n";
    fish_lines(word, condition, out);
  }
  return out;
}

}  // namespace

Result<std::string> completion_script(std::string_view shell, const WordTree& tree) {
  if (shell == "bash") return bash(tree);
  if (shell == "zsh") return zsh(tree);
  if (shell == "fish") return fish(tree);
  return fail(ErrorCode::usage, "completion: no script for the shell '" + std::string(shell) + "'",
              "accepted: bash, zsh or fish");
}

}  // namespace headgate::cli
