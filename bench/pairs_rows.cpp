#include <chrono>

#include "memory_rows.hpp"
#include "tests/tenants/spin_pairs.hpp"

namespace headgate::bench {

namespace {

using nlohmann::json;

// Returns the seconds until the pair has met; an error if it never met.
Result<double> meet(const Setting& setting, const Candidate& candidate, const tenant::SpinPair& pair,
                    unsigned percent) {
  const std::string name = TRY(make_case(setting));
  auto spec = child_of(setting, candidate, setting.simulator_dir, name, {.percent = percent, .bytes = 1ull << 30},
                       tenant::spin_words(setting.spin_program, pair));
  spec.environment.emplace_back("HEADGATE_SIM_PROFILE", pair.profile);
  const auto end = load::run_child(spec, std::chrono::milliseconds(60'000));
  remove_case(setting, name);
  if (!end) {
    return std::unexpected(end.error());
  }
  const json said = json::parse(end->out, nullptr, false);
  if (said.is_discarded() || !said.value("ok", false)) {
    return fail(ErrorCode::failed, "they did not meet: " + end->out);
  }
  return said["elapsed_ns"].get<double>() * 1e-9;
}

}  // namespace

Result<Section> pairs_section(const Setting& setting) {
  Section section{.title = "KERNELS THAT SPIN FOR EACH OTHER: time to finish 4 rounds", .columns = {}, .rows = {}};
  for (const unsigned percent : tenant::kSpinPercents) {
    section.columns.push_back(printed("%u %%", percent));
  }
  std::vector<const Candidate*> candidates{&setting.ours};
  for (const Candidate& peer : setting.peers) {
    candidates.push_back(&peer);
  }
  for (const tenant::SpinPair& pair : tenant::kSpinPairs) {
    for (const Candidate* candidate : candidates) {
      const bool judged = candidate == &setting.ours;
      progress(std::string("pairs: two ") + pair.kind + ", " + candidate->name);
      Row row{.what = std::string("two ") + pair.kind + (judged ? "" : "  " + candidate->name),
              .reach = judged ? "finish" : "",
              .values = {},
              .verdict = judged ? Verdict::reached : Verdict::told,
              .details = nullptr};
      for (const unsigned percent : tenant::kSpinPercents) {
        const auto seconds = meet(setting, *candidate, pair, percent);
        row.values.push_back(seconds ? printed("%.3f s", *seconds) : "stuck");
        row.details[printed("%u_percent_s", percent)] = seconds ? json(*seconds) : json(seconds.error().message);
        if (judged && !seconds) {
          row.verdict = Verdict::missed;
        }
      }
      section.rows.push_back(row);
    }
  }
  return section;
}

}  // namespace headgate::bench
