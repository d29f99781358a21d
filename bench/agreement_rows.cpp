#include <algorithm>
#include <chrono>
#include <thread>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "memory_rows.hpp"
#include "sim/node.hpp"
#include "sim/truth.hpp"

namespace headgate::bench {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::int64_t kReachNs = 100'000'000;
constexpr int kPeriodMs = 250;

struct Sample {
  std::int64_t at_ns;
  std::uint64_t card, ours;  // used bytes by the card; account plus residual of all live processes

  [[nodiscard]] std::uint64_t off() const { return card > ours ? card - ours : ours - card; }
  [[nodiscard]] bool agrees() const { return off() <= std::max(kMiB, card / 1000); }
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

std::uint64_t account_and_residual(const ledger::UsagePage& usage) {
  std::uint64_t sum = ledger::used_bytes(usage, 0);
  for (const ledger::Slot& slot : usage.slots) {
    if ((slot.life.load() & 0xf) == static_cast<std::uint64_t>(ledger::SlotKind::live))
      sum += slot.devices[0].residual_bytes.load();
  }
  return sum;
}

// Both values are read between two clock readings. `at_ns` is the first reading, so that agreement found by the second
// is not dated too early.
Result<std::vector<Sample>> watch(load::Child& child, const std::string& node, const std::string& runtime) {
  ledger::SharePages pages;
  std::vector<Sample> samples;
  const auto deadline = steady_clock::now() + milliseconds(180'000);
  while (child.running()) {
    if (steady_clock::now() > deadline) return fail(ErrorCode::failed, "the bursts did not end within three minutes");
    if (pages.usage == nullptr && ledger::open_share(runtime.c_str(), "default", ledger::Access::owner, pages)) {
      std::this_thread::sleep_for(milliseconds(5));
      continue;
    }
    Sample sample{.at_ns = 0, .card = 0, .ours = account_and_residual(*pages.usage)};
    const auto truth = sim::read_truth(node);
    sample.at_ns = now_ns();
    if (truth && !truth->devices.empty()) {
      sample.card = truth->devices[0].used_bytes;
      samples.push_back(sample);
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (pages.usage != nullptr) ledger::close_pages(pages);
  return samples;
}

// Returns the time from the burst's end until both agree for the rest of the gap before the next burst; the whole gap
// if they never do.
std::int64_t time_to_agree(const std::vector<Sample>& samples, std::int64_t ended_ns, std::int64_t until_ns) {
  std::int64_t agreed_ns = until_ns;
  for (auto sample = samples.rbegin(); sample != samples.rend(); ++sample) {
    if (sample->at_ns >= until_ns) continue;
    if (sample->at_ns < ended_ns || !sample->agrees()) break;
    agreed_ns = sample->at_ns;
  }
  return agreed_ns - ended_ns;
}

}  // namespace

Result<Section> agreement_section(const Setting& setting) {
  const int bursts = setting.quick ? 20 : 120;
  progress(printed("agreement: %d bursts of allocations", bursts));
  const std::string name = TRY(make_case(setting));
  sim::Profile profile = *sim::find_profile("h200");
  profile.slab_bytes = 2 * kMiB;  // as a real card allocates memory
  if (const auto made = sim::recreate_node(node_of(setting, name), profile); !made) {
    return std::unexpected(made.error());
  }
  load::Child child = TRY(load::Child::start(
      child_of(setting, setting.ours, setting.simulator_dir, name, {.bytes = 16ull << 30},
               {setting.memory_program, "bursts", "4", std::to_string(bursts), std::to_string(kPeriodMs)})));
  const std::vector<Sample> samples = TRY(watch(child, node_of(setting, name), runtime_of(setting, name)));
  const load::ChildEnd end = child.wait(steady_clock::now() + milliseconds(10'000));
  remove_case(setting, name);
  const json report = json::parse(end.out, nullptr, false);
  if (end.status != 0 || report.is_discarded() || report["odd_answers"] != 0) {
    return fail(ErrorCode::failed,
                "the bursts ended with status " + std::to_string(end.status) + ": " + end.err + end.out);
  }

  std::vector<std::int64_t> took;
  const json& list = report["bursts"];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int64_t ended = list[i][1];
    const std::int64_t next = i + 1 < list.size() ? list[i + 1][0].get<std::int64_t>() : ended + kPeriodMs * 900'000LL;
    took.push_back(time_to_agree(samples, ended, next));
  }
  std::ranges::sort(took);
  const auto at = [&took](double part) {
    return static_cast<double>(took[static_cast<std::size_t>(part * static_cast<double>(took.size() - 1))]) * 1e-6;
  };
  Section section{.title = "ACCOUNT and residual beside the card's bytes, 4 processes, memory in slabs of 2 MiB",
                  .columns = {"p50", "p90", "worst"},
                  .rows = {}};
  section.rows.push_back(
      {.what = printed("after a burst of allocations (%d) they agree within", bursts),
       .reach = "1 MiB or 0.1 % after 100 ms",
       .values = {printed("%.0f ms", at(0.5)), printed("%.0f ms", at(0.9)), printed("%.0f ms", at(1))},
       .verdict = took.back() <= kReachNs ? Verdict::reached : Verdict::missed,
       .details = {{"agreed_after_ns", took}, {"looks", samples.size()}}});
  return section;
}

}  // namespace headgate::bench
