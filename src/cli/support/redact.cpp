#include "cli/support/support_bundle.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSecret = "[redacted]";

// Fields with values that identify no person and that support compares with known ones.
constexpr std::array<std::string_view, 18> kVocabulary = {
    "schema", "kind",   "severity", "state",        "level",          "uuid",        "model", "pci_bus_id", "version",
    "health", "policy", "profile",  "compute_mode", "priority_class", "fail_policy", "admit", "on_oom",     "key"};

// Directories without user data.
constexpr std::array<std::string_view, 12> kSystem = {"/usr/", "/lib",      "/etc/", "/proc/", "/sys/", "/dev/",
                                                      "/run/", "/var/lib/", "/bin/", "/sbin/", "/opt/", "/v1/"};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

bool stands_alone(std::string_view text, std::size_t at, std::size_t length) {
  const bool left = at == 0 || !is_word(text[at]) || !is_word(text[at - 1]);
  const std::size_t end = at + length;
  return left && (end == text.size() || !is_word(text[end - 1]) || !is_word(text[end]));
}

std::string by_chance() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    std::abort();  // no weaker source of randomness may be used
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace

void Redactor::hide(const std::string& kind, const std::string& name) {
  const bool number = std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  // Every machine has these two users, so their names identify no person.
  const bool everywhere = name == "root" || name == "nobody";
  if (!names_ || number || everywhere || name == "-" || words_.contains(name)) return;
  (void)word_for(kind, name);
  const auto longer = [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  };
  hidden_.insert(std::ranges::upper_bound(hidden_, name, longer), name);
}

std::string Redactor::word_for(const std::string& kind, const std::string& name) {
  auto& word = words_[name];
  while (word.empty()) {
    const std::string next = kind + "-" + by_chance();
    if (std::ranges::none_of(words_, [&](const auto& known) { return known.second == next; })) word = next;
  }
  return word;
}

void Redactor::hide_secret(const std::string& secret) {
  if (!secret.empty()) secrets_.push_back(secret);
}

std::string Redactor::without_secrets(std::string_view text) const {
  std::string out(text);
  for (const std::string& secret : secrets_) out = replaced(std::move(out), secret, kSecret);
  constexpr std::string_view kBearer = "Bearer ";
  for (std::size_t at = 0; (at = out.find(kBearer, at)) != std::string::npos;) {
    at += kBearer.size();
    const std::size_t end = std::min(out.find_first_of(" \t\r\n\"',", at), out.size());
    out.replace(at, end - at, kSecret);
  }
  return out;
}

std::string Redactor::without_names(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::ranges::find_if(hidden_, [&](const std::string& name) {
      return text.substr(at).starts_with(name) && stands_alone(text, at, name.size());
    });
    if (found == hidden_.end()) {
      out += text[at++];
      continue;
    }
    out += words_.at(*found);
    at += found->size();
  }
  return out;
}

std::string Redactor::without_paths(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = text[at] == '/' && (at == 0 || std::string_view(" \t\n\"'(=:,").contains(text[at - 1])) &&
                        at + 1 < text.size() && is_word(text[at + 1]);
    if (!begins) {
      out += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \t\r\n\"',;:)", at), text.size());
    const std::string path(text.substr(at, end - at));
    const bool system = std::ranges::any_of(kSystem, [&](std::string_view one) { return path.starts_with(one); }) &&
                        !path.contains("/cgroup/");
    out += system ? path : word_for("path", path);
    at = end;
  }
  return out;
}

std::string Redactor::text(std::string_view text) {
  const std::string clean = without_secrets(text);
  return names_ ? without_names(without_paths(clean)) : clean;
}

// "docker 4f2a": keeps the kind of place, hides its name.
std::string Redactor::place(const std::string& where) {
  const std::size_t space = where.find(' ');
  return space == std::string::npos ? text(where)
                                    : where.substr(0, space + 1) + word_for("place", where.substr(space + 1));
}

// Events name a program as "process 12 (NAME, WHERE)" or "NAME (12)". It may have ended and be unknown elsewhere, and
// its name may contain brackets, so everything that could be part of it is hidden.
std::string Redactor::of_process(const std::string& text, std::uint64_t pid) {
  const std::string number = std::to_string(pid), inner = "process " + number + " (", after = " (" + number + ")";
  const std::size_t close = text.rfind(')');
  if (text.starts_with(inner) && close != std::string::npos) return inner + kSecret + this->text(text.substr(close));
  const std::size_t end = text.rfind(after);
  return end == std::string::npos || pid == 0 ? this->text(text) : "a process" + this->text(text.substr(end));
}

void Redactor::gather(const Json& value) {
  for (const auto& [key, inner] : value.items()) {
    if (inner.is_structured()) {
      gather(inner);
    } else if (inner.is_string()) {
      const auto text = inner.get<std::string>();
      if (key == "user" || key == "owner") hide("user", text);
      else if (key == "command") hide("command", text);
      else if (key == "where" && text.contains(' ')) hide("place", text.substr(text.find(' ') + 1));
    }
  }
}

void Redactor::learn(std::string_view json) {
  const Json all = parse_json(json);
  if (all.is_structured()) gather(all);
}

void Redactor::walk(Json& value, const std::string& key) {
  if (value.is_structured()) {
    const std::uint64_t pid =
        value.is_object() ? value.value("pid", Json()).is_number_unsigned() ? value["pid"].get<std::uint64_t>() : 0 : 0;
    for (auto& [inner_key, inner] : value.items()) {
      if (names_ && pid != 0 && inner_key == "text" && inner.is_string())
        inner = without_secrets(of_process(inner.get<std::string>(), pid));
      else walk(inner, value.is_array() ? key : inner_key);
    }
    return;
  }
  if (!value.is_string() || std::ranges::find(kVocabulary, key) != kVocabulary.end()) return;
  const auto text = value.get<std::string>();
  value = names_ && key == "where" ? place(text) : this->text(text);
}

std::string Redactor::json(std::string_view json) {
  Json all = parse_json(json);
  if (all.is_discarded()) return text(json);
  walk(all, "");
  return pretty_json(all);
}

std::string Redactor::metrics(std::string_view page) {
  constexpr std::array<std::string_view, 4> kPlaces = {"namespace", "pod", "container", "slurm_job"};
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = page.find("=\"", at), end_of_line = std::min(page.find('\n', at), page.size());
    if (open == std::string_view::npos || open > end_of_line || page[at] == '#') {
      out += without_secrets(page.substr(at, std::min(end_of_line + 1, page.size()) - at));
      at = end_of_line + 1;
      continue;
    }
    std::size_t close = open + 2;
    while (close < page.size() && page[close] != '"') close += page[close] == '\\' ? 2 : 1;
    close = std::min(close, page.size());
    const std::size_t name = page.find_last_of("{,", open) + 1;
    const std::string value(page.substr(open + 2, close - open - 2));
    out += page.substr(at, open + 2 - at);
    const std::string_view label = page.substr(name, open - name);
    if (names_ && label == "where") out += place(value);
    else if (names_ && !value.empty() && std::ranges::find(kPlaces, label) != kPlaces.end())
      out += word_for("place", value);
    else out += text(value);
    at = close;
  }
  return out;
}

}  // namespace headgate::cli
