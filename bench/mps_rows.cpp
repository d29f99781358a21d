#include "mps_rows.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
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

Result<load::Done> add_daemons(const Setting& setting, Section& section) {
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
  return load::Done{};
}

// Two shares whose kernels fill whatever SMs they are given: what each has of the GPU's SMs, by the truth page.
Result<load::Done> add_split(const Setting& setting, Section& section) {
  progress("mps: two shares at once");
  const auto node = TRY(DaemonNode::start(setting, "h200"));
  std::vector<load::Child> loads;
  for (const auto& [name, part] : {std::pair{"thirty", "30%"}, {"sixty", "60%"}}) {
    TRY(node->command({"share", "create", name, "--isolation=mps", "--mem=8GiB", "--compute", part}));
    loads.push_back(TRY(node->run(name, {setting.load_program, "--duration=120s", "--kernels=500us", "--blocks=132",
                                         "--sync=depth:8", "--no-idle-list"})));
  }
  std::this_thread::sleep_for(milliseconds(2'000));
  const sim::Truth before = TRY(node->truth());
  std::this_thread::sleep_for(milliseconds(setting.quick ? 3'000 : 10'000));
  const sim::Truth after = TRY(node->truth());
  const auto ns = static_cast<double>(after.now_ns - before.now_ns);
  std::vector<double> parts;
  for (const auto& process : after.devices.at(0).processes) {
    double sm_ns = process.sm_ns;
    for (const auto& former : before.devices.at(0).processes)
      if (former.pid == process.pid) sm_ns -= former.sm_ns;
    if (sm_ns > 0) parts.push_back(100 * sm_ns / ns);
  }
  for (load::Child& one : loads) one.signal(15);
  if (parts.size() != 2) return fail(ErrorCode::failed, "two programs were to have the GPU");
  std::ranges::sort(parts);
  const json details = {{"percent", parts}};
  const bool reached = std::abs(parts[0] - 30) <= 2 && std::abs(parts[1] - 60) <= 2;
  section.rows.push_back(mps_row("shares of 30 and 60 %, both full: parts of the SMs", "within 2 points",
                                 printed("%.1f / %.1f %%", parts[0], parts[1]), reached, details));
  section.rows.push_back(mps_row("both together, above what turns give", "more than 60 %",
                                 printed("%.1f %%", parts[0] + parts[1]), parts[0] + parts[1] > 60, details));
  return load::Done{};
}

}  // namespace

Result<Section> mps_section(const Setting& setting) {
  Section section{.title = "MPS", .columns = {"MEASURED"}, .rows = {}};
  for (const auto part : {add_daemons, add_split}) {
    const auto done = part(setting, section);
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
