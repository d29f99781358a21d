#include "demo/self_test.hpp"

#include <chrono>
#include <optional>
#include <string>

#include "base/units.hpp"
#include "demo/tenants.hpp"

namespace headgate::demo {

using cli::Finding;
using cli::Health;

Finding self_test(bool simulated) {
  constexpr std::uint64_t kAsked = 1025ull << 20;
  const std::string title = "self-test: a program held to 1 GiB";
  const auto unknown = [&](const Error& error) {
    return Finding{Health::fail, title + " could not be tried: " + error.message, error.hint};
  };
  const auto node = PrivateNode::make();
  if (!node) return unknown(node.error());
  auto tenant = start_tenant(
      *node, {"self-test", {"--mem=1GiB"}, {"--attempt=1025MiB", "--no-launches", "--duration=1ms", "--no-idle-list"}},
      simulated ? std::optional<std::string>("") : std::nullopt);
  if (!tenant) return unknown(tenant.error());
  const load::ChildEnd end = tenant->wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  const auto report = end.status == 0 ? read_load_report(end.out)
                                      : fail(ErrorCode::failed, end.timed_out ? "it did not end within 60 s"
                                                                              : end.err.substr(0, end.err.find('\n')));
  if (!report) return unknown(report.error());
  if (report->attempted_bytes != kAsked || report->attempt_given_bytes != 0) {
    return {
        Health::fail,
        title + " asked for 1025 MiB and got " + bytes_text(report->attempt_given_bytes) + ": the limit does not hold",
        "do not rely on shares here; look whether /etc/ld.so.preload or another limiter takes the driver's "
        "functions"};
  }
  return {Health::ok, title + " was refused 1025 MiB, as it should be" + (simulated ? " (SIMULATED)" : ""), ""};
}

}  // namespace headgate::demo
