#include "power_rows.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "daemon_node.hpp"
#include "http/client.hpp"
#include "power/wire.hpp"

namespace headgate::bench {
namespace {

using json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kProfile = "l40s-x2";
constexpr const char* kSet200 = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=";
constexpr double kKiB = 1024, kMiB = 1024 * 1024;

double ms_since(steady_clock::time_point then) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - then).count();
}

double part_of(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

Row row(std::string what, std::string reach, std::string value, bool reached, json details) {
  return {.what = std::move(what),
          .reach = std::move(reach),
          .values = {std::move(value)},
          .verdict = reached ? Verdict::reached : Verdict::missed,
          .details = std::move(details)};
}

Row told(std::string what, std::string value, json details) {
  return {.what = std::move(what),
          .reach = "",
          .values = {std::move(value)},
          .verdict = Verdict::told,
          .details = std::move(details)};
}

class PowerBench {
 public:
  explicit PowerBench(const Setting& setting) : setting_(setting) {}

  Result<Section> measure() {
    for (const auto part : {&PowerBench::wire, &PowerBench::idle, &PowerBench::holders, &PowerBench::crowd}) {
      const auto done = (this->*part)();
      if (done) continue;
      progress(done.error().message);
      section_.rows.push_back({.what = done.error().message.substr(0, done.error().message.find('\n')),
                               .reach = "",
                               .values = {"failed"},
                               .verdict = Verdict::unmeasured,
                               .details = nullptr});
    }
    return std::move(section_);
  }

 private:
  // Runs the server in a separate process with GPUs that reply at once, so the figures exclude the driver.
  Result<void> wire() {
    progress("power: the API over GPUs that answer at once");
    const auto end = TRY(load::run_child({.argv = {setting_.power_program}}, milliseconds(120'000)));
    const json figures = json::parse(end.out, nullptr, false);
    if (!figures.is_object()) return fail(ErrorCode::failed, "'" + end.out.substr(0, 200) + "' is no measurement");
    const auto times = [](const json& one) {
      return printed("p50 %.1f us, p99 %.1f us", one.value("p50_us", 0.0), one.value("p99_us", 0.0));
    };
    const json &noise = figures["noise"], &blocking = figures["blocking"], &at_once = figures["at_once"],
               &stream = figures["stream"], &queued = figures["queued"];
    section_.rows.push_back(told("noise: the same bytes there and back between two threads", times(noise), noise));
    section_.rows.push_back(
        row("blocking set, one GPU, kept connection, without the driver's time", "p50 150 us, p99 500 us",
            times(blocking), blocking.value("p50_us", 1e9) <= 150 && blocking.value("p99_us", 1e9) <= 500, blocking));
    section_.rows.push_back(row("non-blocking sets accepted, one connection", "5000 a second",
                                printed("%.0f a second", at_once.value("per_s", 0.0)),
                                at_once.value("per_s", 0.0) >= 5000, at_once));
    section_.rows.push_back(row("stream at 20 Hz to 100 clients", "2 % of a core",
                                printed("%.2f %%", stream.value("core_percent", 100.0)),
                                stream.value("core_percent", 100.0) <= 2, stream));
    section_.rows.push_back(row("growth: 10,000 commands, 100 clients that never read, GPU shut", "8 MiB",
                                printed("%.0f KiB", queued.value("growth_bytes", 1e12) / kKiB),
                                queued.value("growth_bytes", 1e12) <= 8 * kMiB, queued));
    return {};
  }

  static std::vector<std::string> with_socket() { return {"--zeusd-socket", "{runtime}/zeusd.sock"}; }
  static std::string socket_of(const DaemonNode& node) { return node.runtime() + "/zeusd.sock"; }

  // Cost of the listener for a daemon without clients: the median of several starts, because each start varies.
  Result<void> idle() {
    progress("power: an idle daemon with the listener and without");
    std::vector<double> without, with;
    for (int start = 0; start < (setting_.quick ? 3 : 5); ++start) {
      for (std::vector<double>* bytes : {&without, &with}) {
        const auto words = bytes == &with ? with_socket() : std::vector<std::string>{};
        const auto node = TRY(DaemonNode::start(setting_, kProfile, words));
        std::this_thread::sleep_for(milliseconds(setting_.quick ? 1'500 : 5'000));
        bytes->push_back(static_cast<double>(node->resident_bytes()));
      }
    }
    const double growth = part_of(with, 0.5) - part_of(without, 0.5);
    section_.rows.push_back(row("growth of an idle headgated by the listener", "512 KiB",
                                printed("%.0f KiB", growth / kKiB), growth <= 512 * kKiB,
                                {{"without_bytes", without}, {"with_bytes", with}}));
    return {};
  }

  static Result<void> needs_root() {
    if (::geteuid() == 0) return {};
    return fail(ErrorCode::denied, "rows that set the simulated GPUs need root");
  }

  // Returns GPU 0's limit, read through the zeusd API.
  static Result<std::uint64_t> limit_mw(const DaemonNode& node) {
    const auto reply = TRY(
        http::exchange({.path = socket_of(node)}, {.target = "/gpu/get_power_limit?gpu_ids=0"}, milliseconds(5'000)));
    const json body = json::parse(reply.body, nullptr, false);
    if (reply.status != 200 || !body.is_object()) return fail(ErrorCode::failed, "no power limit: " + reply.body);
    return body["0"].value("power_limit_mw", std::uint64_t{0});
  }

  // Measures from kill -9 of a lease's holder until a reader sees the former value.
  Result<void> holders() {
    progress("power: holders that are killed");
    TRY(needs_root());
    const auto node = TRY(DaemonNode::start(setting_, kProfile, with_socket()));
    const std::uint64_t before_mw = TRY(limit_mw(*node));
    std::vector<double> ms;
    for (int round = 0; round < (setting_.quick ? 10 : 50); ++round) {
      load::Child holder = TRY(load::Child::start({.argv = {"sleep", "600"}, .ends_with_us = true}));
      const json lease = {{"gpus", {0}}, {"settings", {{"power_limit_mw", 200'000}}}, {"holder_pid", holder.pid()}};
      const auto made = TRY(http::exchange({.path = node->control_socket()},
                                           {.method = "POST", .target = "/v1/power/leases", .body = lease.dump()},
                                           milliseconds(10'000)));
      if (made.status != 201) return fail(ErrorCode::failed, "no lease: " + made.body);
      const auto killed = steady_clock::now();
      holder.signal(SIGKILL);
      while (TRY(limit_mw(*node)) != before_mw)
        if (ms_since(killed) > 10'000) return fail(ErrorCode::failed, "a killed holder's limit is there after 10 s");
      ms.push_back(ms_since(killed));
      (void)node->running();
    }
    section_.rows.push_back(row(printed("holder killed to values put back, %zu times", ms.size()), "50 ms",
                                printed("p50 %.1f ms, max %.1f ms", part_of(ms, 0.5), part_of(ms, 1)),
                                part_of(ms, 1) <= 50, {{"ms", ms}}));
    return {};
  }

  // Measures /v1's responses with a slow driver, 10,000 commands for it, and 100 stream clients that never read.
  Result<void> crowd() {
    progress("power: 10,000 commands and 100 silent clients");
    TRY(needs_root());
    const auto node = TRY(DaemonNode::start(setting_, kProfile, with_socket()));
    TRY(node->command(
        {"sim", "fault", "--sim=" + std::string(kProfile), "nvmlDeviceSetPowerManagementLimit:slow_us=10000"}));
    std::this_thread::sleep_for(milliseconds(1'000));
    const std::uint64_t before = node->resident_bytes();
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 100; ++i) {
      silent.push_back(connect_to(socket_of(*node)));
      const std::string request = get("/gpu/stream_power");
      if (::write(silent.back().get(), request.data(), request.size()) < 0)
        return fail_errno("asking for a stream", errno);
    }
    std::optional<int> accepted;
    std::thread asking([&] {
      const UniqueFd client = connect_to(socket_of(*node));
      int taken = 0;
      for (int i = 0; i < 10'000; ++i)
        taken += exchange_on(client.get(), post(i % 2 == 0 ? kSet200 + std::string("false")
                                                           : "/gpu/reset_locked_clocks?gpu_ids=0&block=false"));
      accepted = taken;
    });
    std::vector<double> ms;
    const auto until = steady_clock::now() + milliseconds(setting_.quick ? 3'000 : 10'000);
    Result<void> answered;
    while (steady_clock::now() < until && answered) {
      const auto began = steady_clock::now();
      const auto reply = http::exchange({.path = node->control_socket()}, {.target = "/v1/gpus"}, milliseconds(10'000));
      ms.push_back(ms_since(began));
      if (!reply || reply->status != 200) answered = fail(ErrorCode::failed, "/v1/gpus does not answer");
      (void)node->running();
      std::this_thread::sleep_for(milliseconds(5));
    }
    asking.join();
    TRY(std::move(answered));
    const auto growth = static_cast<double>(node->resident_bytes()) - static_cast<double>(before);
    section_.rows.push_back(row("/v1/gpus meanwhile, over a driver that takes 10 ms a set", "50 ms",
                                printed("p50 %.1f ms, max %.1f ms", part_of(ms, 0.5), part_of(ms, 1)),
                                part_of(ms, 1) <= 50,
                                {{"p50_ms", part_of(ms, 0.5)},
                                 {"p99_ms", part_of(ms, 0.99)},
                                 {"max_ms", part_of(ms, 1)},
                                 {"calls", ms.size()},
                                 {"accepted", accepted.value_or(0)}}));
    section_.rows.push_back(row("growth of headgated meanwhile", "8 MiB", printed("%.0f KiB", growth / kKiB),
                                growth <= 8 * kMiB, {{"growth_bytes", growth}}));
    return {};
  }

  const Setting& setting_;
  Section section_{.title = "POWER", .columns = {"MEASURED"}, .rows = {}};
};

}  // namespace

Result<Section> power_section(const Setting& setting) { return PowerBench(setting).measure(); }

}  // namespace headgate::bench
