#include "gangs_row.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon_node.hpp"

namespace headgate::bench {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Returns the run time of each share, including the start of its program.
Result<std::vector<double>> meet(const Setting& setting, std::size_t shares, int rounds) {
  progress("turns: " + std::string(kGangsRow) + (shares == 1 ? ", one alone" : ""));
  const auto node = TRY(DaemonNode::start(setting, "l40s-x2"));
  std::vector<load::Child> children;
  for (std::size_t i = 0; i < shares; ++i) {
    const std::string share = "gang" + std::to_string(i);
    TRY(node->command({"share", "create", share, "--gpu=0,1", "--mem=1GiB"}));
    children.push_back(TRY(node->run(share, {setting.spin_program, "--pair", "gpus", "--rounds", std::to_string(rounds),
                                             "--work-us", "10000", "--timeout-ms", "60000"})));
  }
  std::vector<double> seconds;
  for (load::Child& child : children) {
    const load::ChildEnd end = child.wait(std::chrono::steady_clock::now() + milliseconds(90'000));
    const json said = json::parse(end.out, nullptr, false);
    if (said.is_discarded() || !said.value("ok", false))
      return fail(ErrorCode::failed, std::string(kGangsRow) + ": the ranks did not meet: " + end.out + end.err);
    seconds.push_back(said["elapsed_ns"].get<double>() * 1e-9);
  }
  return seconds;
}

}  // namespace

Result<Row> gangs_row(const Setting& setting) {
  const int rounds = setting.quick ? 60 : 240;  // two shares use two of the simulator's 1024 flags per round
  const double alone = TRY(meet(setting, 1, rounds))[0];
  const std::vector<double> both = TRY(meet(setting, 2, rounds));
  const double part = 100 * 2 * alone / std::ranges::max(both);
  return Row{.what = kGangsRow,
             .reach = "95 % of one alone",
             .values = {printed("%.2f s and %.2f s", both[0], both[1]), printed("%.1f %% of it", part),
                        printed("alone %.2f s", alone), ""},
             .verdict = part >= 95 ? Verdict::reached : Verdict::missed,
             .details = {{"rounds", rounds}, {"alone_s", alone}, {"both_s", both}, {"percent", part}}};
}

}  // namespace headgate::bench
