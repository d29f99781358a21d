#include "node/gpu_policies.hpp"

#include <algorithm>

#include "base/user_name.hpp"
#include "guest/grant/text.hpp"
#include "node/share_rights.hpp"

namespace headgate::node {
namespace {

// Accepted beside the policies' names: what the configuration says.
constexpr std::string_view kDefaultPolicy = "default";

}  // namespace

Result<void> GpuPolicies::set(const std::string& uuid, const std::string& policy, bool void_promises,
                              const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator sets a GPU's policy",
                "root, or the group of the control socket");
  const bool as_usual = policy == kDefaultPolicy;
  auto wanted = as_usual ? Result<schedule::Policy>(usual_) : parse_policy(policy);
  if (!wanted) {
    wanted.error().hint += ", or default: as the configuration says";
    return std::unexpected(wanted.error());
  }
  Arbitration& arbitration = *managed_.arbitration;
  const auto& gpus = arbitration.gpus();
  const auto found = std::ranges::find_if(gpus, [&](const auto& gpu) { return grant::same_ignoring_case(gpu, uuid); });
  if (found == gpus.end())
    return fail(ErrorCode::not_found,
                "there is no GPU " + tenancy::escape_untrusted(uuid) + ", or it did not answer when headgated started",
                "GET /v1/gpus (headgate status) lists them; one that is present is taken up when headgated restarts");
  if (found - gpus.begin() >= schedule::kMaxGpus)
    return fail(ErrorCode::unsupported,
                "headgated gives turns on " + std::to_string(schedule::kMaxGpus) + " GPUs at most, and " +
                    tenancy::escape_untrusted(uuid) + " is one more: its policy is off",
                "a ceiling (--compute) holds there as well");
  const auto number = static_cast<std::uint32_t>(found - gpus.begin());
  const auto promises = voided_by_policy(managed_.shares.rows(), *found, arbitration.policy(number), *wanted);
  TRY(need_consent("the policy " + policy_word(*wanted), promises, void_promises));
  TRY(managed_.shares.set_gpu_policy(*found, as_usual ? "" : policy));
  arbitration.set_policy(number, *wanted);
  managed_.events.add({.kind = "gpu.policy",
                       .severity = "info",
                       .uuid = *found,
                       .uid = caller.uid,
                       .text = user_name(caller.uid) + " set the policy of GPU " + found->substr(0, 12) + " to " +
                               policy_word(*wanted) + (as_usual ? ", which is the configuration's" : "")});
  return {};
}

void GpuPolicies::set_usual(schedule::Policy policy) {
  usual_ = policy;
  Arbitration& arbitration = *managed_.arbitration;
  const auto& stored = managed_.shares.gpu_policies();
  for (std::uint32_t g = 0; g < arbitration.gpus().size(); ++g) {
    const auto said = stored.find(arbitration.gpus()[g]);
    // A policy that only a newer headgate knows leaves the configuration's in force.
    const auto kept = said == stored.end() ? Result<schedule::Policy>(policy) : parse_policy(said->second);
    arbitration.set_policy(g, kept.value_or(policy));
  }
}

schedule::Policy GpuPolicies::of(const std::string& uuid) const {
  if (managed_.arbitration == nullptr) return schedule::Policy::off;
  const auto& gpus = managed_.arbitration->gpus();
  const auto gpu = std::ranges::find(gpus, uuid);
  return gpu == gpus.end() ? schedule::Policy::off
                           : managed_.arbitration->policy(static_cast<std::uint32_t>(gpu - gpus.begin()));
}

// Programs in time slices: processes with a context on the GPU, of shares of that isolation.
std::uint32_t GpuPolicies::sliced_processes(const snapshot::Snapshot& snapshot, const std::string& uuid) const {
  const auto& shares = managed_.shares.list();
  return static_cast<std::uint32_t>(std::ranges::count_if(snapshot.processes, [&](const snapshot::Process& process) {
    const auto share = shares.find(process.share);
    return share != shares.end() && share->second.share.isolation == tenancy::Isolation::timeslice &&
           std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid) != process.devices.end();
  }));
}

// Clients of an MPS server and programs in time slices have no turns: while there are any on a GPU, its policy is off.
void GpuPolicies::follow(snapshot::Snapshot& snapshot) {
  for (const snapshot::Gpu& gpu : snapshot.gpus) compute_modes_[gpu.uuid] = gpu.compute_mode;
  Arbitration* const arbitration = managed_.arbitration;
  for (std::uint32_t g = 0; arbitration != nullptr && g < arbitration->gpus().size(); ++g) {
    const std::string& uuid = arbitration->gpus()[g];
    const auto gpu = std::ranges::find(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
    if (gpu == snapshot.gpus.end()) continue;
    const std::string policy = policy_word(arbitration->policy(g)), name = "GPU " + std::to_string(gpu->index);
    // While the driver's library is released the clients are not known, so what was stays. So it does where this is no
    // new snapshot.
    const bool known = snapshot.taken_ns != 0 && !snapshot.node.nvml_released;
    const auto follow = [&](MpsActivity& activity, std::uint32_t programs, const char* kind, const std::string& began,
                            const std::string& ended) {
      const auto news = !known ? MpsActivity::News::none : activity.look(uuid, programs, snapshot.taken_ns);
      if (news == MpsActivity::News::none) return;
      arbitration->set_without_turns(g, mps_activity_.is_on(uuid) || slice_activity_.is_on(uuid));
      managed_.events.add(
          {.kind = kind,
           .severity = "info",
           .uuid = uuid,
           .text = news == MpsActivity::News::began
                       ? began + ": until they end its policy is off instead of " + policy
                       : ended + " any more: its policy is " + policy_word(arbitration->policy_in_force(g))});
    };
    follow(mps_activity_, gpu->mps_clients, "gpu.mps",
           "programs of shares are clients of an MPS server on " + name + ", where their kernels run at once",
           "no program of a share is a client of an MPS server on " + name);
    follow(slice_activity_, sliced_processes(snapshot, uuid), "gpu.timeslice",
           "programs of shares of isolation timeslice have the driver's time slices on " + name,
           "no program of a share of isolation timeslice is on " + name);
    gpu->policy = policy;
    gpu->policy_from = managed_.shares.gpu_policies().contains(gpu->uuid) ? "command" : "configuration";
    gpu->policy_in_force = policy_word(arbitration->policy_in_force(g));
  }
}

// Programs would fail in cuInit or at their first context, with an error that says less.
Result<void> GpuPolicies::check_compute_mode(const tenancy::Share& share) const {
  if (share.isolation == tenancy::Isolation::hook) return {};
  for (const tenancy::DeviceShare& device : share.devices) {
    const auto found = compute_modes_.find(device.uuid);
    const std::string mode = found == compute_modes_.end() ? "" : found->second;
    const bool sliced = share.isolation == tenancy::Isolation::timeslice;
    if (mode != "prohibited" && !(sliced && mode == "exclusive process")) continue;
    return fail(ErrorCode::conflict,
                "share '" + share.name + "': its GPU " + device.uuid + " is in compute mode " + mode +
                    ", and isolation " + std::string(tenancy::isolation_word(share.isolation)) + " needs " +
                    (sliced ? "default" : "default or exclusive"),
                "headgate gpu mode default --gpu " + device.uuid);
  }
  return {};
}

MpsActivity::News MpsActivity::look(const std::string& uuid, std::uint32_t clients, std::uint64_t now_ns) {
  if (clients > 0) return last_seen_ns_.insert_or_assign(uuid, now_ns).second ? News::began : News::none;
  const auto known = last_seen_ns_.find(uuid);
  if (known == last_seen_ns_.end() || now_ns < known->second + kMpsGoneNs) return News::none;
  last_seen_ns_.erase(known);
  return News::ended;
}

}  // namespace headgate::node
