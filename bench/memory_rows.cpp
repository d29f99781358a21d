#include "memory_rows.hpp"

#include <chrono>
#include <map>

namespace headgate::bench {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::uint64_t kLimitBytes = 512ull << 20;
constexpr std::uint64_t kDuelBytes = 300ull << 20;  // fits into kLimitBytes once

// Returns the figures of a headgate-bench-memory run with these arguments.
Result<json> figures_of(const Setting& setting, const Candidate& candidate, std::vector<std::string> words) {
  const std::string name = TRY(make_case(setting));
  words.insert(words.begin(), setting.memory_program);
  const auto end = load::run_child(
      child_of(setting, candidate, setting.nop_driver_dir, name, {.bytes = kLimitBytes}, words), milliseconds(60'000));
  remove_case(setting, name);
  if (!end) {
    return fail(ErrorCode::failed, candidate.name + ": " + end.error().message.substr(0, 300));
  }
  json parsed = json::parse(end->out, nullptr, false);
  if (parsed.is_discarded()) {
    return fail(ErrorCode::failed, candidate.name + ": '" + end->out + "' is no measurement");
  }
  return parsed;
}

}  // namespace

Result<Section> memory_section(const Setting& setting) {
  const std::string rounds = "1000000", duel_rounds = setting.quick ? "1000" : "10000";
  const std::string kills = setting.quick ? "100" : "1000";
  Section section{.title = "MEMORY, one limit of 512 MiB", .columns = {}, .rows = {}};
  std::vector<std::map<std::string, json>> measured;  // per column
  std::vector<const Candidate*> candidates{&setting.ours};
  for (const Candidate& peer : setting.peers) {
    candidates.push_back(&peer);
  }
  for (const Candidate* candidate : candidates) {
    section.columns.push_back(candidate->name);
    auto& figures = measured.emplace_back();
    std::vector<std::vector<std::string>> runs{{"crowd", "16", "8", rounds, std::to_string(kLimitBytes)},
                                               {"duel", duel_rounds, std::to_string(kDuelBytes)}};
    if (candidate == &setting.ours) {
      runs.push_back({"kills", kills});
    }
    for (const auto& words : runs) {
      progress("memory, " + candidate->name + ": " + words[0]);
      const auto done = figures_of(setting, *candidate, words);
      if (!done) {
        progress(done.error().message);
        continue;
      }
      for (const auto& [key, value] : done->items()) {
        figures[words[0] + "." + key] = value;
      }
    }
  }
  struct Wanted {
    std::string what, reach, key;
    bool (*reached)(double);
    const char* format;
    double scale = 1;
  };
  const auto none = [](double value) { return value == 0; };
  const Wanted all[] = {
      {"16 processes x 8 threads, " + rounds + " rounds: bytes over", "0", "crowd.over_bytes", none, "%.0f"},
      {"  usable part of the limit, filled by all at once", "99.9 %", "crowd.usable",
       [](double part) { return part >= 0.999; }, "%.2f %%", 100},
      {"  a round, all at once", "", "crowd.round_ns", nullptr, "%.0f ns"},
      {"two racers, " + duel_rounds + " rounds: both got what is there once", "0", "duel.both_won", none, "%.0f"},
      {"  both were refused", "0", "duel.both_lost", none, "%.0f"},
      {kills + " kills at marked and random steps: bytes left", "0", "kills.bytes_left", none, "%.0f"},
      {"  slots left", "0", "kills.slots_left", none, "%.0f"},
      {"  locks left", "0", "kills.locks_left", none, "%.0f"},
  };
  for (const Wanted& wanted : all) {
    Row row{.what = wanted.what, .reach = wanted.reach, .values = {}, .verdict = Verdict::told, .details = nullptr};
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const auto figure = measured[i].find(wanted.key);
      const bool there = figure != measured[i].end();
      row.values.push_back(there ? printed(wanted.format, figure->second.get<double>() * wanted.scale) : "-");
      if (there) {
        row.details[section.columns[i]] = figure->second;
      }
      if (i == 0 && wanted.reached != nullptr) {
        row.verdict = !there                                         ? Verdict::unmeasured
                      : wanted.reached(figure->second.get<double>()) ? Verdict::reached
                                                                     : Verdict::missed;
      }
    }
    section.rows.push_back(row);
  }
  return section;
}

}  // namespace headgate::bench
