#include "mps_rows.hpp"

#include <unistd.h>

#include <chrono>

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

}  // namespace

Result<Section> mps_section(const Setting& setting) {
  Section section{.title = "MPS", .columns = {"MEASURED"}, .rows = {}};
  if (const auto done = add_daemons(setting, section); !done) {
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
