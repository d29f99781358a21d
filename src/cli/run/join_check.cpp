
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/joined.hpp"
#include "base/units.hpp"
#include "cli/run/run_request.hpp"
#include "cli/term/output.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"

namespace headgate::cli {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// Converts to option terms: --compute is the guarantee, and --burst is the ceiling.
ledger::ShareGrant grant_of(const snapshot::ShareDevice& has) {
  const auto ppm = [](double ratio) { return static_cast<std::uint32_t>(std::lround(ratio * 1e6)); };
  ledger::ShareGrant grant;
  grant.device_count = 1;
  ledger::DeviceGrant& device = grant.devices[0];
  std::strncpy(device.uuid, has.uuid.c_str(), sizeof device.uuid - 1);
  device.memory_limit_bytes = has.memory_limit_bytes.value_or(ledger::kNoMemoryLimit);
  device.host_limit_bytes = has.host_limit_bytes;
  device.compute_ceiling_ppm = ppm(has.compute_guarantee_ratio);
  device.compute_burst_ppm = ppm(has.compute_ceiling_ratio);
  return grant;
}

class Comparison {
 public:
  Comparison(const RunOptions& run, const snapshot::Share& share) : run_(run), share_(share) {}

  // `asked`: as the user wrote it.
  Result<void> same(bool equal, const std::string& option, const std::string& has, const std::string& asked) const {
    if (equal) return {};
    // Only users that may change the share are told how.
    const bool own = ::geteuid() == 0 || share_.owner_uid == ::geteuid();
    return fail(ErrorCode::usage,
                "the share '" + harmless(share_.name) + "' of headgated has its limits already: " + option + " " +
                    harmless(has) + ", asked was " + option + " " + harmless(asked),
                own ? "use the same values, leave them out to join it, or choose another --name; headgate share set " +
                          harmless(share_.name) + " changes them"
                    : "use the same values, leave them out to join it, or choose another --name");
  }

  Result<void> gpus(const snapshot::Snapshot& snapshot) const {
    const std::string wanted = run_.gpu.value_or(install::environment("HEADGATE_GPU"));
    // Any GPU will do.
    if (wanted.empty() || wanted == "auto") return {};
    const auto asked = TRY(choose_uuids("--gpu", wanted, snapshot));
    const bool equal = std::ranges::is_permutation(asked, share_.devices, {}, {}, &snapshot::ShareDevice::uuid);
    return same(equal, "--gpu", joined(share_.devices, ",", &snapshot::ShareDevice::uuid), wanted);
  }

  // `wanted`: the options and environment, completed from `has`.
  Result<void> device(const ledger::DeviceGrant& wanted, const ledger::DeviceGrant& has,
                      const snapshot::ShareDevice& shown) const {
    const auto said = [](const std::optional<std::string>& option, const std::string& by_environment) {
      return option ? *option : by_environment + " (by the environment)";
    };
    const auto limit = [](std::uint64_t bytes) {
      return bytes == ledger::kNoMemoryLimit ? "none" : exact_bytes_text(bytes);
    };
    const auto part = [](std::uint32_t ppm) { return ppm == 0 ? "none" : percent_text(ppm); };
    TRY(same(wanted.memory_limit_bytes == has.memory_limit_bytes, "--mem", limit(has.memory_limit_bytes),
             said(run_.mem, limit(wanted.memory_limit_bytes))));
    TRY(same(wanted.host_limit_bytes == has.host_limit_bytes, "--host-mem", exact_bytes_text(has.host_limit_bytes),
             said(run_.host_mem, exact_bytes_text(wanted.host_limit_bytes))));
    TRY(same(wanted.compute_ceiling_ppm == has.compute_ceiling_ppm, "--compute", part(has.compute_ceiling_ppm),
             said(run_.compute, part(wanted.compute_ceiling_ppm))));
    const std::uint32_t burst_ppm = run_.burst ? TRY(compute_option("--burst", *run_.burst)) : wanted.compute_burst_ppm;
    TRY(same(burst_ppm == has.compute_burst_ppm, "--burst", percent_text(has.compute_burst_ppm),
             said(run_.burst, percent_text(burst_ppm))));
    if (run_.weight)
      TRY(same(*run_.weight == std::to_string(shown.weight), "--weight", std::to_string(shown.weight), *run_.weight));
    return run_.priority_class ? same(*run_.priority_class == shown.priority_class, "--class", shown.priority_class,
                                      *run_.priority_class)
                               : Result<void>();
  }

  Result<void> times(std::uint64_t taken_unix_ns) const {
    if (run_.on_oom) {
      // Normalised as the daemon stores it.
      const std::string asked = *run_.on_oom == "wait" ? "wait=30s" : *run_.on_oom;
      const auto length = [](const std::string& text) -> Result<std::uint64_t> {
        return text.starts_with("wait=") ? time_option("--on-oom", text.substr(5)) : 0;
      };
      const bool waits = share_.on_oom != "fail";
      const bool equal = asked == share_.on_oom ||
                         (waits && asked.starts_with("wait=") && TRY(length(asked)) == TRY(length(share_.on_oom)));
      TRY(same(equal, "--on-oom", share_.on_oom, *run_.on_oom));
    }
    if (!run_.ttl) return {};
    // The TTL at creation is what is left plus what has passed: whole seconds from two clocks, hence the margin.
    constexpr std::uint64_t kOffNs = 2 * kSecond, kShownNs = 5 * kSecond;
    const std::uint64_t made_with_ns =
        share_.ttl_ns.value_or(0) + taken_unix_ns / kSecond * kSecond - share_.created_unix_ns;
    const auto is_it = [&](std::uint64_t asked_ns) {
      return asked_ns <= made_with_ns + kOffNs && made_with_ns <= asked_ns + kOffNs;
    };
    const std::string has = share_.ttl_ns ? duration_text((made_with_ns + kShownNs / 2) / kShownNs * kShownNs) : "none";
    const bool equal = share_.ttl_ns && *run_.ttl != "none"
                           ? !share_.expired && is_it(TRY(time_option("--ttl", *run_.ttl)))
                           : !share_.ttl_ns && *run_.ttl == "none";
    return same(equal, "--ttl", has, *run_.ttl);
  }

 private:
  const RunOptions& run_;
  const snapshot::Share& share_;
};

}  // namespace

Result<void> agrees(const RunOptions& run, const config::Config& config, const snapshot::Share& share,
                    const snapshot::Snapshot& snapshot) {
  const Comparison comparison(run, share);
  const install::Gpus gpus = gpus_in(snapshot);
  TRY(comparison.gpus(snapshot));
  RunRequest request = TRY(read_run_request(run, config));
  // Burst is compared separately, because the ceiling that it must exceed may be left out.
  request.burst_ppm.reset();
  for (const auto& shown : share.devices) {
    const auto found = std::ranges::find(gpus.list, shown.uuid, &snapshot::Gpu::uuid);
    if (found == gpus.list.end()) continue;
    const auto index = static_cast<std::size_t>(found - gpus.list.begin());
    const ledger::ShareGrant has = grant_of(shown);
    const ledger::ShareGrant wanted = TRY(make_grant(request, gpus, {index}, ::environ, has));
    TRY(comparison.device(wanted.devices[0], has.devices[0], shown));
  }
  return comparison.times(snapshot.taken_unix_ns);
}

}  // namespace headgate::cli
