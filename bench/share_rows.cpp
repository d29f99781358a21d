#include "share_rows.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "guest/ledger/pages.hpp"
#include "load/asking.hpp"
#include "sim/truth.hpp"
#include "split.hpp"

namespace headgate::bench {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr auto kBucketNs = static_cast<std::int64_t>(sim::kTruthBucketNs);
static_assert(kBucketNs == load::kIdleBucketNs);
constexpr std::size_t kSecond = 100;  // buckets
constexpr std::size_t kTenth = 10;

struct Case {
  std::string name;
  unsigned percent;
  std::vector<std::string> load_arguments;
  double bias_points = 0;  // 0: bias and RMS are judged; else only the bias, within this
};

unsigned seconds_of(bool quick) { return quick ? 4 : 8; }

// Half a point, and what one such kernel in flight is worth.
double bias_of_long(unsigned kernel_ms, bool quick) { return 0.5 + kernel_ms / (10.0 * seconds_of(quick)); }

std::vector<Case> cases(bool quick) {
  struct Kernels {
    const char *name, *words;
  };
  constexpr Kernels kKernels[] = {{"20 us", "--kernels=20us"},
                                  {"200 us", "--kernels=200us"},
                                  {"1 ms", "--kernels=1ms"},
                                  {"mixed, median 200 us", "--kernels=lognormal:200us,1.0,seed=7"}};
  std::vector<Case> result;
  for (const unsigned percent : quick ? std::vector<unsigned>{25} : std::vector<unsigned>{5, 10, 25, 50, 75, 95}) {
    for (const Kernels& kernels : kKernels) {
      result.push_back({kernels.name, percent, {kernels.words}});
    }
  }
  struct Shape {
    const char* name;
    std::vector<std::string> words;
  };
  // Some limiters count blocks instead of time; they do not limit a kernel of one block.
  const Shape kWholeCard{"2112 blocks", {"--blocks=2112"}};
  const std::vector<Shape> shapes = quick ? std::vector<Shape>{{"8 processes", {"--processes=8"}}, kWholeCard}
                                          : std::vector<Shape>{kWholeCard,
                                                               {"4 streams", {"--streams=4"}},
                                                               {"32 streams", {"--streams=32"}},
                                                               {"2 processes", {"--processes=2"}},
                                                               {"8 processes", {"--processes=8"}},
                                                               {"64 threads", {"--threads=64"}}};
  for (const Shape& shape : shapes) {
    for (const unsigned percent : quick ? std::vector<unsigned>{25} : std::vector<unsigned>{25, 50}) {
      std::vector<std::string> words = shape.words;
      words.insert(words.begin(), "--kernels=200us");
      result.push_back({std::string("200 us, ") + shape.name, percent, words});
    }
  }
  for (const unsigned percent : quick ? std::vector<unsigned>{} : std::vector<unsigned>{25, 50})
    for (const unsigned ms : {20u, 50u, 200u})
      result.push_back(
          {std::to_string(ms) + " ms", percent, {"--kernels=" + std::to_string(ms) + "ms"}, bias_of_long(ms, quick)});
  result.push_back({"3 us, launch-bound", 50, {"--kernels=3us"}, 2});
  return result;
}

// All functions that launch, with the kernel lengths of the rows above: a graph is one command.
std::vector<Case> kind_cases(bool quick) {
  struct Kind {
    const char* name;
    std::vector<std::string> words;
  };
  const std::vector<Kind> all{
      {"200 us, cuLaunchKernelEx", {"--kernels=200us", "--call=ex"}},
      {"200 us, cooperative", {"--kernels=200us", "--call=cooperative"}},
      {"200 us, dependent chain", {"--kernels=200us", "--call=chain"}},
      {"graphs of 1 x 200 us", {"--kernels=200us", "--graph=1"}},
      {"graphs of 20 x 10 us", {"--kernels=10us", "--graph=20"}},
      {"graphs of 1000 x 1 us", {"--kernels=1us", "--graph=1000"}},
      {"200 us, cuLaunchKernel_ptsz", {"--kernels=200us", "--per-thread"}},
      {"200 us, cuLaunchKernelEx_ptsz", {"--kernels=200us", "--call=ex", "--per-thread"}},
      {"200 us, cooperative_ptsz", {"--kernels=200us", "--call=cooperative", "--per-thread"}},
      {"200 us, dependent chain_ptsz", {"--kernels=200us", "--call=chain", "--per-thread"}},
      {"graphs of 20 x 10 us, _ptsz", {"--kernels=10us", "--graph=20", "--per-thread"}},
  };
  std::vector<Case> result;
  for (const Kind& kind : all) {
    const std::string_view name = kind.name;
    if (quick && !name.ends_with("chain") && !name.ends_with("10 us") && !name.ends_with("cuLaunchKernel_ptsz"))
      continue;
    for (const unsigned percent : quick ? std::vector<unsigned>{25} : std::vector<unsigned>{25, 50}) {
      result.push_back({kind.name, percent, kind.words});
    }
  }
  for (const unsigned ms : quick ? std::vector<unsigned>{} : std::vector<unsigned>{20, 50, 200})
    result.push_back({"graphs of " + std::to_string(ms) + " x 1 ms",
                      25,
                      {"--kernels=1ms", "--graph=" + std::to_string(ms)},
                      bias_of_long(ms, quick)});
  return result;
}

std::string row_name(const Case& each) { return printed("%2u %%  %s", each.percent, each.name.c_str()); }

// Buckets of one run: the truth and the client's log, aligned to the clock's grid and cut to whole seconds.
struct Run {
  std::vector<Bucket> buckets;
  json report;
};

// Returns the fraction of the share's charged GPU time that was estimated, not measured; nothing if a library has no
// headgate pages.
std::optional<double> estimated_part(const std::string& runtime) {
  ledger::SharePages pages;
  if (ledger::open_share(runtime.c_str(), "default", ledger::Access::owner, pages)) {
    return std::nullopt;
  }
  const ledger::ComputeAccount& account = pages.usage->compute[0];
  const auto held = static_cast<double>(account.held_ns.load());
  const auto estimated = static_cast<double>(account.estimated_ns.load());
  ledger::close_pages(pages);
  return held > 0 ? estimated / held : 0;
}

class ShareBench {
 public:
  ShareBench(const Setting& setting, const NoiseSampler& noise) : setting_(setting), noise_(noise) {
    candidates_.push_back(&setting.ours);
    for (const Candidate& peer : setting.peers) {
      candidates_.push_back(&peer);
    }
  }

  Result<Section> measure(std::string title, std::vector<Case> all) {
    std::erase_if(all,
                  [this](const Case& each) { return row_name(each).find(setting_.only_case) == std::string::npos; });
    std::vector<std::vector<std::vector<Bucket>>> gathered(candidates_.size(),
                                                           std::vector<std::vector<Bucket>>(all.size()));
    std::vector<std::vector<json>> reports(candidates_.size(), std::vector<json>(all.size(), json::array()));
    const unsigned rounds = setting_.quick ? 1 : std::min(setting_.rounds, 2u);
    for (unsigned round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        progress(printed("share, round %u of %u, case %zu of %zu: %s at %u %%", round + 1, rounds, i + 1, all.size(),
                         all[i].name.c_str(), all[i].percent));
        for (std::size_t c = 0; c < candidates_.size(); ++c) {
          const auto run = run_case(*candidates_[c], all[i]);
          if (!run) {
            progress(candidates_[c]->name + ": " + run.error().message);
            reports[c][i].push_back({{"error", run.error().message}});
            continue;
          }
          gathered[c][i].insert(gathered[c][i].end(), run->buckets.begin(), run->buckets.end());
          reports[c][i].push_back(run->report);
        }
      }
    }
    Section section{
        .title = std::move(title),
        .columns = {"bias", "rms 1 s", "rms 100 ms", "wrong: bias", "rms 1 s", "rms 100 ms", "worst", "estimated"},
        .rows = {}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t c = 0; c < candidates_.size(); ++c) {
        section.rows.push_back(row_of(all[i], *candidates_[c], gathered[c][i], reports[c][i], c == 0));
      }
    }
    return section;
  }

 private:
  Result<Run> run_case(const Candidate& candidate, const Case& each) {
    const std::string name = TRY(make_case(setting_));
    // Slightly more than whole seconds, because the first and the last bucket are cut.
    const unsigned duration_ms = 1000 * seconds_of(setting_.quick) + 40;
    std::vector<std::string> argv{setting_.load_program, "--duration=" + std::to_string(duration_ms) + "ms"};
    argv.insert(argv.end(), each.load_arguments.begin(), each.load_arguments.end());
    const auto spec = child_of(setting_, candidate, setting_.simulator_dir, name,
                               {.percent = each.percent, .bytes = 64ull << 30}, argv);
    const auto end = TRY(load::run_child(spec, milliseconds(180'000)));
    const auto truth = TRY(sim::read_truth(node_of(setting_, name)));
    const auto estimated = estimated_part(runtime_of(setting_, name));
    remove_case(setting_, name);
    Run run;
    run.report = json::parse(end.out, nullptr, false);
    if (run.report.is_discarded() || truth.devices.empty()) {
      return fail(ErrorCode::failed, "the load's report cannot be read: '" + end.out.substr(0, 200) + "'");
    }
    if (estimated) {
      run.report["estimated_part"] = *estimated;
    }
    fill(run, truth.devices[0].history);
    run.report.erase("not_asking");  // its buckets are in the windows by now
    return run;
  }

  void fill(Run& run, const sim::HeldHistory& history) const {
    const std::int64_t started = run.report["started_ns"], ended = run.report["ended_ns"];
    const json& idle = run.report["not_asking"]["idle_ns"];
    const NoiseSampler::Late late = noise_.late();
    const std::int64_t first = started / kBucketNs + 1, last = ended / kBucketNs;
    const std::int64_t whole = (last - first) / static_cast<std::int64_t>(kSecond) * static_cast<std::int64_t>(kSecond);
    for (std::int64_t bucket = first; bucket < first + whole; ++bucket) {
      const auto in_log = static_cast<std::size_t>(bucket - started / kBucketNs);
      run.buckets.push_back({.held_ns = static_cast<std::int64_t>(history.between(
                                 static_cast<std::uint64_t>(bucket), static_cast<std::uint64_t>(bucket) + 1)),
                             .idle_ns = in_log < idle.size() ? idle[in_log].get<std::int64_t>() : 0,
                             .late_ns = late.at(bucket)});
    }
  }

  static Row row_of(const Case& each, const Candidate& candidate, const std::vector<Bucket>& buckets,
                    const json& reports, bool judged) {
    Row row{.what = row_name(each) + (judged ? "" : "  " + candidate.name),
            .reach = "",
            .values = {},
            .verdict = Verdict::told,
            .details = nullptr};
    if (judged) {
      row.reach = each.bias_points > 0 ? printed("wrong: bias %.1f", each.bias_points) : "wrong: 0.1; 0.2; 1";
      row.verdict = Verdict::unmeasured;
    }
    row.details["runs"] = reports;
    if (buckets.empty()) {
      row.values.emplace_back("failed");
      return row;
    }
    const double limit = each.percent / 100.0;
    const Accuracy second = accuracy(buckets, kBucketNs, kSecond, limit);
    const Accuracy tenth = accuracy(buckets, kBucketNs, kTenth, limit);
    row.values = {printed("%+.3f", second.bias),     printed("%.3f", second.rms),
                  printed("%.3f", tenth.rms),        printed("%+.3f", second.wrong_bias),
                  printed("%.3f", second.wrong_rms), printed("%.3f", tenth.wrong_rms),
                  printed("%.3f", tenth.wrong_worst)};
    double estimated = -1;  // maximum of the runs
    for (const json& report : reports) {
      estimated = std::max(estimated, report.value("estimated_part", -1.0));
    }
    row.values.push_back(estimated < 0 ? "-" : printed("%.2f %%", 100 * estimated));
    for (const auto& [key, windows] : {std::pair{"1s", second}, std::pair{"100ms", tenth}}) {
      row.details[key] = {{"windows", windows.windows},
                          {"bias_points", windows.bias},
                          {"rms_points", windows.rms},
                          {"worst_points", windows.worst},
                          {"wrong_bias_points", windows.wrong_bias},
                          {"wrong_rms_points", windows.wrong_rms},
                          {"wrong_worst_points", windows.wrong_worst}};
    }
    if (judged) {
      const bool reached = each.bias_points > 0
                               ? std::abs(second.wrong_bias) <= each.bias_points
                               : std::abs(second.wrong_bias) <= 0.1 && second.wrong_rms <= 0.2 && tenth.wrong_rms <= 1;
      row.verdict = reached ? Verdict::reached : Verdict::missed;
    }
    return row;
  }

  const Setting& setting_;
  const NoiseSampler& noise_;
  std::vector<const Candidate*> candidates_;
};

}  // namespace

Result<Section> share_section(const Setting& setting, const NoiseSampler& noise) {
  return ShareBench(setting, noise).measure("SHARE held, points of the GPU", cases(setting.quick));
}

Result<Section> kinds_section(const Setting& setting, const NoiseSampler& noise) {
  return ShareBench(setting, noise).measure("SHARE held by launch kind, points of the GPU", kind_cases(setting.quick));
}

}  // namespace headgate::bench
