#include "cli/command.hpp"

#include <chrono>

#include "base/duration.hpp"
#include "base/split.hpp"
#include "install/source.hpp"

namespace headgate::cli {
namespace {

// Parses a time from 10ms to `most_ms`.
Result<std::uint64_t> milliseconds_from(const std::string& option, const std::string& text, std::uint64_t most_ms,
                                        const std::string& accepted) {
  const auto time = read_time(text);
  const std::uint64_t ms =
      time ? static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(*time).count()) : 0;
  if (ms < 10 || ms > most_ms)
    return fail(ErrorCode::usage, option + " '" + text + "' is not understood", "accepted: " + accepted);
  return ms;
}

}  // namespace

Option& Options::value(std::string names, std::string type, std::string summary,
                       std::function<Result<void>(const std::string& value)> store) {
  return add({.names = std::move(names),
              .type = std::move(type),
              .summary = std::move(summary),
              .store = [store = std::move(store)](const auto& values) { return store(values.front()); }});
}

Option& Options::operand(std::string name, std::string summary, std::string& to) {
  Option& made = text(std::move(name), "", std::move(summary), to);
  made.required = true;
  return made;
}

Option& Options::list(std::string names, std::string type, std::string summary, Takes takes,
                      std::vector<std::string>& to) {
  return add({.names = std::move(names),
              .type = std::move(type),
              .summary = std::move(summary),
              .takes = takes,
              .store = [&to](const auto& values) -> Result<void> {
                to = values;
                return {};
              }});
}

Option& Options::flag(std::string names, std::string summary, std::function<void(bool)> store) {
  const std::string name = names.substr(names.rfind(',') + 1);
  return add({.names = std::move(names),
              .type = "",
              .summary = std::move(summary),
              .takes = Takes::flag,
              .store = [name, store = std::move(store)](const auto& values) -> Result<void> {
                const std::string& said = values.back();
                const bool on = said == "true" || said == "yes";
                if (!on && said != "false" && said != "no")
                  return fail(ErrorCode::usage, name + ": '" + harmless(said) + "' is neither yes nor no",
                              "accepted: yes or no");
                store(on);
                return {};
              }});
}

void Options::simulated() {
  // A flag that takes a value behind '=' alone: a word after --sim is the program's.
  add({.names = "--sim",
       .type = "",
       .summary = "use a simulated GPU; --sim=PROFILE: " + install::profile_names(", ") + " or a .toml file",
       .takes = Takes::flag,
       .store = [&simulate = call.simulate](const auto& values) -> Result<void> {
         simulate = values.back() == "true" ? "" : values.back();
         return {};
       },
       .completes = install::profile_names(" ") + " :file"});
}

void Options::interval(const std::string& what, const char* otherwise) {
  value("--interval", "TIME", what + " (" + otherwise + ")",
        [&to = call.interval_ms](const std::string& text) -> Result<void> {
          to = TRY(milliseconds_from("--interval", text, 60'000, "10ms to 60s, such as 500ms or 1s"));
          return {};
        });
}

void Options::watch() {
  const auto store = [&to = call.watch_ms](const std::string& text) -> Result<void> {
    to = text.empty() ? 2000
                      : TRY(milliseconds_from("--watch", text, 3'600'000, "10ms to 60m, such as 500ms, 2s or 5m"));
    return {};
  };
  value("--watch", "TIME", "repeat until Ctrl-C or q, every 2 s; --watch=5s: another interval", store).takes =
      Takes::at_most_one;
}

void Options::lists() {
  formats = {Format::table, Format::wide, Format::json, Format::jsonl, Format::csv};
  value("--columns", "NAMES", "only these columns of csv, in this order: name,memory_used_bytes",
        [&to = call.voice.columns_of_csv](const std::string& text) -> Result<void> {
          to = split(text, ',');
          if (to.back().empty()) to.pop_back();  // a comma at the end
          return {};
        });
}

Command plain_command(std::string group, std::string name, std::string summary, Action run, Reads reads,
                      std::function<void(Options&)> add_options) {
  return {.group = std::move(group),
          .name = std::move(name),
          .summary = std::move(summary),
          .add_options =
              [add_options = std::move(add_options), run = std::move(run)](Options& options) {
                add_options(options);
                return run;
              },
          .reads = reads};
}

Command parent_command(std::string group, std::string name, std::string summary) {
  return {.group = std::move(group), .name = std::move(name), .summary = std::move(summary), .add_options = {}};
}

Result<std::uint64_t> time_option(const std::string& option, const std::string& text) {
  constexpr std::chrono::seconds kLongest(366ll * 86'400);
  const auto time = read_duration(text);
  if (!time || *time > kLongest)
    return fail(ErrorCode::usage, option + " '" + text + "' is not understood",
                "accepted: 30s, 5m, 1h or 2d, up to a year");
  return static_cast<std::uint64_t>(time->count()) * 1'000'000'000;
}

Result<int> show(const Result<std::string>& text) {
  if (!text) return std::unexpected(text.error());
  if (!print(*text)) return fail(ErrorCode::failed, "cannot write to standard output");
  return 0;
}

}  // namespace headgate::cli
