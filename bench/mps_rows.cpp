#include "mps_rows.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "daemon_node.hpp"
#include "load/child.hpp"

namespace headgate::bench {
namespace {

using json = nlohmann::ordered_json;
using std::chrono::milliseconds;

Row mps_row(std::string what, std::string reach, std::string value, bool reached, json details) {
  return {.what = std::move(what),
          .reach = std::move(reach),
          .values = {std::move(value)},
          .verdict = reached ? Verdict::reached : Verdict::missed,
          .details = std::move(details)};
}

void add_life(const json& life, Section& section) {
  const std::string tool = life.value("tool", "").contains("real-parts") ? ", NVIDIA's own (535)" : ", the stand-in";
  const struct {
    const char *key, *what, *reach;
    double most_ms;
  } kRows[] = {{"first", "acquire, first: the daemon is ready", "50 ms", 50},
               {"next", "acquire, next", "1 ms", 1},
               {"release", "release: the daemon has ended", "50 ms", 50}};
  for (const auto& one : kRows) {
    const json figures = life.value(one.key, json::object());
    const double p50 = figures.value("p50_ms", 1e9), most = figures.value("max_ms", 1e9);
    section.rows.push_back(mps_row(one.what + tool, one.reach, printed("p50 %.2f ms, max %.2f ms", p50, most),
                                   p50 <= one.most_ms, figures));
  }
}

Result<void> add_daemons(const Setting& setting, Section& section) {
  progress("mps: control daemons started, watched and stopped");
  std::vector<std::string> words = {setting.mps_program, setting.simulator_dir + "/nvidia-cuda-mps-control"};
  if (::access(setting.real_mps_tool.c_str(), X_OK) == 0) words.push_back(setting.real_mps_tool);
  const auto end = TRY(load::run_child({.argv = std::move(words)}, milliseconds(120'000)));
  const json all = json::parse(end.out, nullptr, false);
  if (!all.is_object()) return fail(ErrorCode::failed, "'" + end.out.substr(0, 200) + "' is no measurement");
  for (const json& life : all["life"]) add_life(life, section);
  const double core = all["watch"].value("core_percent", 100.0);
  section.rows.push_back(mps_row("eight groups watched, with the tool's processes", "0.2 % of a core",
                                 printed("%.2f %%", core), core <= 0.2, all["watch"]));
  const double named = all["fault"].value("named_ms", 1e9), again = all["fault"].value("restarted_ms", 1e9);
  section.rows.push_back(
      mps_row("fault of a client to its event", "1 s", printed("%.0f ms", named), named <= 1000, all["fault"]));
  section.rows.push_back(mps_row("its last client's end to the next daemon", "2 s", printed("%.0f ms", again),
                                 again <= 2000, all["fault"]));
  return {};
}

// Parts of the GPU's SMs that programs of two shares had at once, in percent.
struct Split {
  double first = 0, second = 0;
  [[nodiscard]] double sum() const { return first + second; }
};

// 0 where the process has ended. proc(5): the second word behind the name, which may hold spaces.
pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line, state;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  pid_t parent = 0;
  if (name_end != std::string::npos) std::istringstream(line.substr(name_end + 1)) >> state >> parent;
  return parent;
}

// Of the program that this `headgate run` has started. Errors: it is not on the GPU.
Result<double> sm_ns_of(const sim::Truth& truth, pid_t run) {
  for (const sim::ProcessTruth& process : truth.devices.at(0).processes)
    if (process.alive && parent_of(process.pid) == run) return process.sm_ns;
  return fail(ErrorCode::failed, "the program of process " + std::to_string(run) + " is not on the simulated GPU");
}

// Two shares of 30 and 60 % whose programs have always work, with kernels of so many blocks.
Result<Split> split_of(const Setting& setting, const std::string& isolation, unsigned blocks) {
  const auto node = TRY(DaemonNode::start(setting, "h200"));
  const int window_ms = setting.quick ? 2000 : 8000;
  std::vector<load::Child> children;
  for (const char* percent : {"30%", "60%"}) {
    const std::string name = "part" + std::to_string(children.size());
    TRY(node->command({"share", "create", name, "--mem=1GiB", "--compute", percent, "--isolation=" + isolation}));
    children.push_back(
        TRY(node->run(name, {setting.load_program, "--duration=" + std::to_string(window_ms + 7000) + "ms",
                             "--kernels=200us", "--blocks=" + std::to_string(blocks), "--sync=depth:64"})));
  }
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(20'000);
  const auto truth_of = [&](double& first, double& second) -> Result<std::uint64_t> {
    const sim::Truth truth = TRY(node->truth());
    first = TRY(sm_ns_of(truth, children[0].pid()));
    second = TRY(sm_ns_of(truth, children[1].pid()));
    return truth.now_ns;
  };
  double before[2] = {}, after[2] = {};
  Result<std::uint64_t> from = truth_of(before[0], before[1]);
  while (!from || before[0] == 0 || before[1] == 0) {
    for (load::Child& child : children)
      if (!child.running()) {
        const load::ChildEnd end = child.wait(deadline);
        return fail(ErrorCode::failed,
                    isolation + ": a program ended with " + std::to_string(end.status) + ": " + end.err.substr(0, 200));
      }
    if (std::chrono::steady_clock::now() > deadline)
      return fail(ErrorCode::failed, isolation + ": programs were not both at work in 20 s");
    std::this_thread::sleep_for(milliseconds(20));
    from = truth_of(before[0], before[1]);
  }
  // Until the daemon's next readings a new client is held by time too: what follows is the rest of its life.
  std::this_thread::sleep_for(milliseconds(2500));
  const std::uint64_t from_ns = TRY(truth_of(before[0], before[1]));
  std::this_thread::sleep_for(milliseconds(window_ms));
  const auto passed_ns = static_cast<double>(TRY(truth_of(after[0], after[1])) - from_ns);
  return Split{.first = 100 * (after[0] - before[0]) / passed_ns, .second = 100 * (after[1] - before[1]) / passed_ns};
}

Result<void> add_splits(const Setting& setting, Section& section) {
  progress("mps: shares of 30 and 60 % at once");
  constexpr unsigned kWhole = 132, kQuarter = 33;  // of an H200's SMs
  const Split whole = TRY(split_of(setting, "mps", kWhole));
  const double off = std::max(std::abs(whole.first - 30), std::abs(whole.second - 60));
  section.rows.push_back(mps_row("shares of 30 and 60 %, both full: SMs", "2 points each",
                                 printed("%.1f and %.1f %%", whole.first, whole.second), off <= 2,
                                 {{"sm_percent", {whole.first, whole.second}}}));
  const Split at_once = TRY(split_of(setting, "mps", kQuarter)), turns = TRY(split_of(setting, "hook", kQuarter));
  section.rows.push_back(mps_row("the same, kernels of a quarter of the SMs: use of all", "more than turns",
                                 printed("%.1f %%, turns %.1f %%", at_once.sum(), turns.sum()),
                                 at_once.sum() > turns.sum(),
                                 {{"mps_percent", at_once.sum()}, {"turns_percent", turns.sum()}}));
  return {};
}

}  // namespace

Result<Section> mps_section(const Setting& setting) {
  Section section{.title = "MPS", .columns = {"MEASURED"}, .rows = {}};
  for (const auto add : {&add_daemons, &add_splits}) {
    const auto done = add(setting, section);
    if (done) continue;
    progress(done.error().message);
    section.rows.push_back({.what = done.error().message.substr(0, done.error().message.find('\n')),
                            .reach = "",
                            .values = {"failed"},
                            .verdict = Verdict::unmeasured,
                            .details = nullptr});
  }
  return section;
}

}  // namespace headgate::bench
