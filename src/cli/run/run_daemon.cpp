#include "cli/run/run_daemon.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/view/names.hpp"
#include "http/codec.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

Result<Entry> entry_into(const http::Endpoint& daemon, const std::string& share,
                         std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  const std::string target = "/v1/shares/" + http::escape(share) + "/entry?stay=1";
  const std::string reply = TRY(ask(daemon, "GET", target, {}, patience));
  const auto unreadable = [] {
    return fail(ErrorCode::failed, "headgated's answer cannot be read",
                "are the command and the daemon of one version?");
  };
  const Json json = parse_json(reply);
  if (json.is_discarded() || !json.is_object()) return unreadable();
  try {
    Entry entry{json.value("runtime_dir", ""), json.value("share", ""), json.value("uuids", std::vector<std::string>{}),
                json.value("simulated_dir", "")};
    entry.waits_for = json.value("waits_for", "");
    entry.thread_percentage = json.value("thread_percentage", 100u);
    for (const auto& [name, value] : json.value("variables", std::map<std::string, std::string>{}))
      entry.variables.emplace_back(name, value);
    return entry;
  } catch (const Json::exception&) {  // a value of another type
    return unreadable();
  }
}

// Returns the share for remarks only: if it cannot be read, the run goes on.
std::optional<snapshot::Share> announced(const http::Endpoint& daemon, const std::string& name) {
  const auto snapshot = snapshot_of(daemon);
  if (!snapshot) return std::nullopt;
  const auto* share = find_share(*snapshot, name);
  if (share == nullptr) return std::nullopt;
  say(format_granted(*snapshot, *share));
  return *share;
}

void remark_on_refusals(const http::Endpoint& daemon, const snapshot::Share& before) {
  const auto reply = ask(daemon, "GET", "/v1/shares/" + http::escape(before.name));
  const auto after = reply ? snapshot::from_json<snapshot::Share>(*reply) : std::unexpected(reply.error());
  if (!after) return;
  if (const std::string refused = format_refused(before, *after); !refused.empty()) say(refused);
}

Result<int> run_inside(const http::Endpoint& daemon, const Entry& entry, const RunCall& asked) {
  const auto before = asked.call.voice.talk ? announced(daemon, entry.share) : std::nullopt;
  std::vector<std::string> environment = TRY(child_environment(entry, asked.config()));
  // The limiter uses the socket in this directory. It cannot use the page files, which belong to the daemon's user.
  environment.push_back("HEADGATE_SHARE_DIR=" + entry.base + "/shares/" + entry.share);
  constexpr std::chrono::milliseconds kPatience(2'000);  // a program that ends meanwhile waits no longer
  const GpuWait wait(entry, [&] { return entry_into(daemon, entry.share, kPatience); }, asked.call.voice);
  // A separate cgroup, so that the audit policy can freeze this program alone.
  const OwnCgroup cgroup;
  auto status = run_and_wait({asked.program.path, asked.call.words, std::move(environment), cgroup.door()});
  if (before) remark_on_refusals(daemon, *before);
  return status;
}

// Formats to a millionth: "12.5000%".
std::string ppm_text(std::uint32_t ppm) {
  return std::to_string(ppm / 10'000) + "." + std::to_string(ppm % 10'000 + 10'000).substr(1) + "%";
}

// Builds the request from options, environment and configuration. All GPUs of the share get the same values.
Result<std::string> order_for(const RunCall& asked, const install::Gpus& gpus, const std::string& name) {
  const RunOptions& run = asked.options;
  const RunRequest request = TRY(read_run_request(run, asked.config()));
  std::string selector = request.gpu.value_or(install::environment("HEADGATE_GPU"));
  if (selector.empty()) selector = install::environment("CUDA_VISIBLE_DEVICES");
  if (selector.empty()) selector = "auto";
  const auto chosen = TRY(choose_gpus("--gpu", selector, gpus));
  const ledger::ShareGrant grant = TRY(make_grant(request, gpus, chosen, ::environ, std::nullopt));
  const ledger::DeviceGrant& first = grant.devices[0];
  std::string uuids;
  for (std::uint32_t i = 0; i < grant.device_count; ++i) {
    const ledger::DeviceGrant& device = grant.devices[i];
    uuids += (uuids.empty() ? "" : ",") + std::string(device.uuid);
    if (device.memory_limit_bytes != first.memory_limit_bytes || device.host_limit_bytes != first.host_limit_bytes ||
        device.compute_ceiling_ppm != first.compute_ceiling_ppm || device.compute_burst_ppm != first.compute_burst_ppm)
      return fail(ErrorCode::unsupported, "headgated's shares have the same limits on each of their GPUs",
                  "make one share for each GPU, or write limits without an index");
  }
  snapshot::ShareRequest body = run;  // the daemon parses the rest: weight, class, on_oom, ttl
  body.name = name;
  body.gpu = uuids;
  body.until_empty = true;
  body.mem.reset(), body.host_mem.reset();
  if (first.memory_limit_bytes != ledger::kNoMemoryLimit) body.mem = std::to_string(first.memory_limit_bytes) + "B";
  if (first.host_limit_bytes != 0) body.host_mem = std::to_string(first.host_limit_bytes) + "B";
  if (first.oversubscribed) body.oversubscribe = true;
  // An explicit request for the whole GPU is sent like any other value: guaranteed or refused.
  if (first.compute_ceiling_ppm != ledger::kWholeGpu || run.compute) body.compute = ppm_text(first.compute_ceiling_ppm);
  if (!run.burst && first.compute_burst_ppm != 0) body.burst = ppm_text(first.compute_burst_ppm);
  if (grant.fail_policy == ledger::FailPolicy::closed) body.fail_policy = "closed";
  return body_of(body);
}

// Returns the deadline; empty text means none.
Result<std::optional<Clock::time_point>> end_of_waiting(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto time = read_duration(text);
  if (time) return Clock::now() + *time;
  return fail(ErrorCode::usage, "--wait '" + harmless(text) + "' " + std::string(time.error().why),
              "accepted: 1s to 36500d, such as 30s, 5m, 2h or 7d; --wait alone: until there is room");
}

// Options that an existing share already has set; a program that joins cannot change them.
bool asks_for_limits(const RunOptions& run) {
  return static_cast<const snapshot::ShareRequest&>(run) != snapshot::ShareRequest{};
}

// Runs in the share of that name; returns nothing if there is none.
std::optional<Result<int>> join(const http::Endpoint& daemon, const snapshot::Snapshot& snapshot,
                                const std::string& name, const RunCall& asked) {
  const auto* share = find_share(snapshot, name);
  if (share == nullptr) return std::nullopt;
  TRY(agrees(asked.options, asked.config(), *share, snapshot));
  const auto entry = entry_into(daemon, name);
  if (entry) return run_inside(daemon, *entry, asked);
  // The share ended with its last program after the snapshot was taken.
  if (entry.error().code == ErrorCode::not_found && share->created_unix_ns != 0) return std::nullopt;
  return std::unexpected(entry.error());
}

std::string format_compute(const snapshot::ShareDevice& device) {
  const double promised = device.compute_guarantee_ratio;
  const double ceiling = std::max(device.compute_ceiling_ratio, device.compute_burst_ratio.value_or(0));
  if (promised > 0 && promised < ceiling)
    return percent_of(promised) + " promised" + (ceiling < 1 ? ", at most " + percent_of(ceiling) : "");
  return ceiling < 1 ? percent_of(ceiling) : "no compute limit";
}

std::uint64_t refusals_of(const snapshot::Share& share) {
  std::uint64_t all = 0;
  for (const auto& device : share.devices) all = saturating_add(all, device.refusals);
  return all;
}

}  // namespace

Result<int> run_in_share(const RunCall& asked) {
  const RunOptions& run = asked.options;
  if (asks_for_limits(run))
    return fail(ErrorCode::usage, "run --share takes no limits: the share '" + harmless(*run.share) + "' has them",
                "change them: headgate share set " + harmless(*run.share) + " --mem 12GiB");
  if (run.wait)
    return fail(ErrorCode::usage,
                "run --share has nothing to wait for: the share '" + harmless(*run.share) + "' has its room already",
                "leave --wait out; it is for a run that makes its share (--name, --mem)");
  const auto awaited = TRY(await_daemon());
  const http::Endpoint daemon = awaited ? *awaited : TRY(need_daemon());
  return run_inside(daemon, TRY(entry_into(daemon, *run.share)), asked);
}

Result<int> run_by_daemon(const http::Endpoint& daemon, const RunCall& asked) {
  const RunOptions& run = asked.options;
  std::optional<Clock::time_point> until;
  if (run.wait) until = TRY(end_of_waiting(*run.wait));
  const std::string wanted = run.name.value_or(install::environment("HEADGATE_SHARE"));
  const std::string name = wanted.empty() ? random_name() : wanted;
  Result<std::string> made;
  // A conflict means that another run made the share first, or that this run did and the daemon died before it replied.
  // That share may end before we join it; then it is our turn to create it.
  constexpr int kTries = 3;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto snapshot = TRY(snapshot_of(daemon));
    // On the first try, no share can have this random name.
    if (!wanted.empty() || tries > 0)
      if (const auto joined = join(daemon, snapshot, name, asked)) return *joined;
    const std::string body = TRY(order_for(asked, gpus_in(snapshot), name));
    made =
        run.wait ? share_by_line(daemon, name, body, until, asked.call.voice) : ask(daemon, "POST", "/v1/shares", body);
    if (made || made.error().code != ErrorCode::conflict) break;
  }
  if (!made) return std::unexpected(made.error());
  if (const auto share = snapshot::from_json<snapshot::Share>(*made)) remark_on_low_ceiling(*share, asked.call.voice);
  const auto entry = entry_into(daemon, name);
  auto status = entry ? run_inside(daemon, *entry, asked) : std::unexpected(entry.error());
  // If programs are left in it (daemons that the command started), the share is removed with the last of them.
  (void)ask(daemon, "DELETE", "/v1/shares/" + http::escape(name));
  return status;
}

std::string format_granted(const snapshot::Snapshot& snapshot, const snapshot::Share& share) {
  const auto name_of = [&](const snapshot::ShareDevice& device) {
    const auto* gpu = find_gpu(snapshot, device.uuid);
    return gpu == nullptr ? format_gpu(snapshot, device.uuid) : snapshot::gpu_name(*gpu);
  };
  std::string text = "share " + share.name + " on " + joined(share.devices, ", ", name_of) + ": ";
  if (!share.devices.empty()) {
    const auto& device = share.devices.front();
    text += (share.devices.size() > 1 ? "each " : "") +
            (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : std::string("no memory limit")) +
            (device.host_limit_bytes > 0 ? " and " + bytes_text(device.host_limit_bytes) + " of host memory" : "") +
            ", " + format_compute(device);
  }
  return text + (is_weak(share.level) ? ", level " + share.level : "") + (snapshot.node.simulated ? ", SIMULATED" : "");
}

std::string format_refused(const snapshot::Share& before, const snapshot::Share& after) {
  const std::uint64_t then = refusals_of(before), now = refusals_of(after);
  if (now <= then) return {};
  return "share " + after.name + " was refused memory " +
         (now - then == 1 ? "once" : std::to_string(now - then) + " times") + " meanwhile: headgate why " + after.name;
}

std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios) {
  if (ceiling_ratios.empty()) return std::nullopt;
  const double lowest = std::ranges::min(ceiling_ratios);
  if (lowest <= 0 || lowest >= kLowCeiling) return std::nullopt;
  constexpr double kKernelNs = 10e6;
  const double waits_ns = std::min(kKernelNs / lowest - kKernelNs, 1e18);
  return "a compute limit of " + percent_of(lowest) + " is low: after a kernel of 10 ms the next launch waits " +
         duration_text(static_cast<std::uint64_t>(waits_ns)) + ", after longer ones longer";
}

void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice) {
  if (!voice.talk) return;
  if (const auto remark = low_ceiling_remark(ceiling_ratios)) say(*remark);
}

void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice) {
  std::vector<double> ratios;
  for (const auto& device : share.devices) ratios.push_back(device.compute_ceiling_ratio);
  remark_on_low_ceiling(ratios, voice);
}

}  // namespace headgate::cli
