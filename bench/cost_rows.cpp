#include "cost_rows.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "syscalls.hpp"

namespace headgate::bench {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr Limits kNotBinding{.percent = 90, .bytes = 32ull << 30};
constexpr std::uint64_t kTooMany = 40ull << 30;  // exceeds kNotBinding.bytes, below the driver's 64 GiB

// One configuration: a library and limits.
struct Column {
  std::string name;
  const Candidate* candidate;
  Limits limits;
};

// Samples of one figure per column, in order of the runs (two per round).
using Runs = std::map<std::string, std::vector<double>>;

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Returns a column's figure minus native's, for each round.
std::vector<double> added(const Runs& runs, const std::string& column, const std::string& native) {
  std::vector<double> result;
  const auto& theirs = runs.at(column);
  const auto& bare = runs.at(native);
  for (std::size_t i = 0; i + 1 < std::min(theirs.size(), bare.size()); i += 2) {
    result.push_back((theirs[i] + theirs[i + 1]) / 2 - (bare[i] + bare[i + 1]) / 2);
  }
  return result;
}

class CostBench {
 public:
  explicit CostBench(const Setting& setting) : setting_(setting) {
    columns_.push_back({"native", &native_, {}});
    columns_.push_back({"ours, no limit", &setting.ours, {}});
    columns_.push_back({"ours, limit", &setting.ours, kNotBinding});
    for (const Candidate& peer : setting.peers) {
      columns_.push_back({peer.name, &peer, kNotBinding});
    }
  }

  Result<Section> measure() {
    for (unsigned round = 0; round < setting_.rounds; ++round) {
      progress(printed("cost, round %u of %u", round + 1, setting_.rounds));
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        TRY(run_all(columns_[i]));
      }
      for (std::size_t i = columns_.size(); i-- > 0;) {
        TRY(run_all(columns_[i]));
      }
      // Two runs per round, like everything else.
      TRY(run_true());
      TRY(run_start());
      TRY(run_true());
      TRY(run_start());
    }
    Section section{.title = "COST over a do-nothing driver", .columns = {}, .rows = {}};
    for (const Column& column : columns_) {
      section.columns.push_back(column.name);
    }
    add_launch_rows(section);
    add_other_rows(section);
    add_system_call_rows(section);
    return section;
  }

 private:
  Result<json> run(const Column& column, const std::vector<std::string>& words) {
    const std::string name = TRY(make_case(setting_));
    std::vector<std::string> argv{setting_.cost_program};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto end =
        load::run_child(child_of(setting_, *column.candidate, setting_.nop_driver_dir, name, column.limits, argv),
                        milliseconds(120'000));
    remove_case(setting_, name);
    if (!end) {
      return fail(ErrorCode::failed, column.name + ": " + end.error().message);
    }
    json parsed = json::parse(end->out, nullptr, false);
    if (parsed.is_discarded()) {
      return fail(ErrorCode::failed, column.name + ": '" + end->out + "' is no measurement");
    }
    return parsed;
  }

  // If a library fails, its column shows that and the bench continues; only native must work.
  Result<void> run_all(const Column& column) {
    for (const auto& words : std::vector<std::vector<std::string>>{
             {"launch"}, {"kinds"}, {"graph"}, {"alloc"}, {"pool"}, {"refuse", std::to_string(kTooMany)}}) {
      if (words[0] == "refuse" && column.limits.bytes == 0) {
        continue;
      }
      const auto measured = run(column, words);
      if (!measured) {
        if (column.candidate == &native_) {
          return std::unexpected(measured.error());
        }
        failures_[column.name] = measured.error().message;
        progress(measured.error().message);
        continue;
      }
      for (const auto& [key, value] : measured->items()) {
        figures_[key][column.name].push_back(value.get<double>());
      }
    }
    return {};
  }

  // A process's run time is long and varies compared with the added cost, so columns alternate process by process.
  Result<void> run_true() {
    const std::string name = TRY(make_case(setting_));
    std::map<std::string, std::vector<double>> times;
    for (int i = 0; i < (setting_.quick ? 25 : 100); ++i) {
      for (const Column& column : columns_) {
        const auto spec = child_of(setting_, *column.candidate, setting_.nop_driver_dir, name, column.limits,
                                   {setting_.true_program});
        const auto before = std::chrono::steady_clock::now();
        if (const auto end = load::run_child(spec, milliseconds(10'000)); !end) {
          return std::unexpected(end.error());
        }
        times[column.name].push_back(
            std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before).count());
      }
    }
    remove_case(setting_, name);
    for (const auto& [column, all] : times) {
      figures_["true_ns"][column].push_back(median(all));
    }
    return {};
  }

  // Columns alternate here too; each process must create its share.
  Result<void> run_start() {
    std::map<std::string, std::vector<double>> times;
    for (int i = 0; i < (setting_.quick ? 10 : 40); ++i) {
      for (const Column& column : columns_) {
        const auto measured = run(column, {"start"});
        if (!measured && column.candidate == &native_) return std::unexpected(measured.error());
        if (measured) times[column.name].push_back(measured->value("start_ns", 0.0));
      }
    }
    for (const auto& [column, all] : times) {
      figures_["start_ns"][column].push_back(median(all));
    }
    return {};
  }

  [[nodiscard]] bool has(const std::string& key, const std::string& column) const {
    const auto figure = figures_.find(key);
    return figure != figures_.end() && figure->second.contains(column) && figure->second.contains("native") &&
           !figure->second.at(column).empty();
  }

  struct Goal {
    std::string column;  // judged; others are only shown
    double most;
  };

  // Makes a row with native's figure and what each library adds to it. `as` formats a figure.
  Row added_row(const std::string& what, const std::string& reach, const std::string& key, std::vector<Goal> goals,
                const std::function<std::string(double)>& as) {
    Row row{.what = what,
            .reach = reach,
            .values = {},
            .verdict = goals.empty() ? Verdict::told : Verdict::reached,
            .details = nullptr};
    for (const Column& column : columns_) {
      if (!has(key, column.name)) {
        row.values.push_back(failures_.contains(column.name) ? "failed" : "-");
        for (const Goal& goal : goals) {
          if (goal.column == column.name) row.verdict = Verdict::unmeasured;
        }
        continue;
      }
      if (column.candidate == &native_) {
        row.values.push_back(as(median(figures_[key]["native"])));
        row.details["native"] = figures_[key]["native"];
        continue;
      }
      const std::vector<double> rounds = added(figures_[key], column.name, "native");
      const double value = median(rounds);
      row.values.push_back((value < 0 ? "" : "+") + as(value));
      row.details[column.name] = rounds;
      for (const Goal& goal : goals) {
        if (goal.column == column.name && median(rounds) > goal.most && row.verdict == Verdict::reached) {
          row.verdict = Verdict::missed;
        }
      }
    }
    return row;
  }

  // The same for absolute figures.
  Row plain_row(const std::string& what, const std::string& reach, const std::string& key, std::vector<Goal> goals,
                const std::function<std::string(double)>& as) {
    Row row{.what = what,
            .reach = reach,
            .values = {},
            .verdict = goals.empty() ? Verdict::told : Verdict::reached,
            .details = nullptr};
    for (const Column& column : columns_) {
      const auto figure = figures_.find(key);
      const bool there = figure != figures_.end() && figure->second.contains(column.name);
      row.values.push_back(there                             ? as(median(figure->second.at(column.name)))
                           : failures_.contains(column.name) ? "failed"
                                                             : "-");
      if (there) {
        row.details[column.name] = figure->second.at(column.name);
      }
      for (const Goal& goal : goals) {
        if (goal.column != column.name) continue;
        if (!there) {
          row.verdict = Verdict::unmeasured;
        } else if (median(figure->second.at(column.name)) > goal.most && row.verdict == Verdict::reached) {
          row.verdict = Verdict::missed;
        }
      }
    }
    return row;
  }

  void add_launch_rows(Section& section) {
    const auto ns = [](double value) { return printed("%.1f ns", value); };
    const auto calls = [](double value) { return printed("%.4f", value); };
    section.rows.push_back(added_row("launch, p50 of batches of 256", "no limit +10 ns, limit +15 ns", "launch_p50_ns",
                                     {{"ours, no limit", 10}, {"ours, limit", 15}}, ns));
    section.rows.push_back(added_row("launch with its share of the wait, mean", "limit +25 ns", "with_wait_mean_ns",
                                     {{"ours, limit", 25}}, ns));
    section.rows.push_back(added_row("single launch, p99", "", "single_p99_ns", {}, ns));
    section.rows.push_back(plain_row("  two readings of its clock, in each of these", "", "reading_ns", {}, ns));
    section.rows.push_back(added_row("graph launch, p50 of batches of 256", "limit +100 ns", "graph_p50_ns",
                                     {{"ours, no limit", 100}, {"ours, limit", 100}}, ns));
    section.rows.push_back(
        added_row("graph launch with its share of the wait, mean", "", "graph_with_wait_mean_ns", {}, ns));
    for (const auto& [what, key] : {std::pair{"  by cuLaunchKernelEx", "ex"},
                                    {"  by cuLaunchCooperativeKernel", "cooperative"},
                                    {"  dependent (programmatic)", "chain"},
                                    {"  by cuLaunchKernel_ptsz", "plain_ptsz"},
                                    {"  by cuLaunchKernelEx_ptsz", "ex_ptsz"},
                                    {"  by cuLaunchCooperativeKernel_ptsz", "cooperative_ptsz"},
                                    {"  dependent, _ptsz", "chain_ptsz"}}) {
      section.rows.push_back(added_row(what, "no limit +10 ns, limit +15 ns", std::string(key) + "_p50_ns",
                                       {{"ours, no limit", 10}, {"ours, limit", 15}}, ns));
    }
    section.rows.push_back(plain_row("driver calls of our own a launch", "0.05", "driver_calls_per_launch",
                                     {{"ours, no limit", 0.05}, {"ours, limit", 0.05}}, calls));
  }

  void add_other_rows(Section& section) {
    const auto ns = [](double value) { return printed("%.1f ns", value); };
    const auto us = [](double value) { return printed("%.1f us", value * 1e-3); };
    const auto calls = [](double value) { return printed("%.4f", value); };
    section.rows.push_back(added_row("alloc + free pair, p50", "+200 ns", "pair_p50_ns", {{"ours, limit", 200}}, ns));
    section.rows.push_back(
        added_row("AllocAsync + free pair, p50", "+300 ns", "pool_pair_p50_ns", {{"ours, limit", 300}}, ns));
    section.rows.push_back(added_row("AllocAsync + free pair, 8 alive, p50", "+300 ns", "pool_several_p50_ns",
                                     {{"ours, limit", 300}}, ns));
    section.rows.push_back(plain_row("driver calls of our own a pair", "", "driver_calls_per_pool_pair", {}, calls));
    section.rows.push_back(plain_row("refusal, p50", "100 ns", "refusal_p50_ns", {{"ours, limit", 100}}, ns));
    section.rows.push_back(
        plain_row("refusals of 128000 asked", "", "refused", {}, [](double value) { return printed("%.0f", value); }));
    section.rows.push_back(
        plain_row("driver calls a refusal", "0", "driver_calls_per_refusal", {{"ours, limit", 0}}, calls));
    section.rows.push_back(added_row("/bin/true, start to end", "+300 us", "true_ns",
                                     {{"ours, no limit", 300e3}, {"ours, limit", 300e3}}, us));
    section.rows.push_back(added_row("cuInit and the first context", "+1000 us", "start_ns",
                                     {{"ours, no limit", 1e6}, {"ours, limit", 1e6}}, us));
  }

  void add_system_call_rows(Section& section) {
    Row row{
        .what = "system calls a launch", .reach = "0", .values = {}, .verdict = Verdict::reached, .details = nullptr};
    Row waits{.what = "system calls of the wait after 256",
              .reach = "",
              .values = {},
              .verdict = Verdict::told,
              .details = nullptr};
    for (const Column& column : columns_) {
      const auto name = make_case(setting_);
      const auto calls = name ? count_system_calls(child_of(setting_, *column.candidate, setting_.nop_driver_dir, *name,
                                                            column.limits, {setting_.cost_program, "syscalls"}))
                              : Result<SystemCalls>(std::unexpected(name.error()));
      if (!calls) {
        progress(column.name + ": " + calls.error().message);
        row.values.emplace_back("-");
        waits.values.emplace_back("-");
        row.verdict = Verdict::unmeasured;
        continue;
      }
      remove_case(setting_, *name);
      constexpr double kLaunches = 100.0 * 256;
      row.values.push_back(printed("%.4f", static_cast<double>(calls->of_launches) / kLaunches));
      waits.values.push_back(printed("%.2f", static_cast<double>(calls->of_waits) / 100));
      row.details[column.name] = {{"in_launches", calls->of_launches},
                                  {"in_waits", calls->of_waits},
                                  {"other_threads", calls->of_other_threads},
                                  {"launches", kLaunches}};
      for (const auto& [number, count] : calls->by_number) {
        row.details[column.name]["by_number"][std::to_string(number)] = count;
      }
      if (column.candidate == &setting_.ours && calls->of_launches > 0 && row.verdict == Verdict::reached) {
        row.verdict = Verdict::missed;
      }
    }
    section.rows.push_back(row);
    section.rows.push_back(waits);
  }

  const Setting& setting_;
  Candidate native_{.name = "native", .library = ""};
  std::vector<Column> columns_;
  std::map<std::string, Runs> figures_;
  std::map<std::string, std::string> failures_;
};

}  // namespace

Result<Section> cost_section(const Setting& setting) { return CostBench(setting).measure(); }

}  // namespace headgate::bench
