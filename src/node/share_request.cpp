#include "node/share_request.hpp"

#include <algorithm>
#include <cmath>

#include "base/duration.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "base/whole_number.hpp"
#include "guest/grant/gpu_throughput.hpp"
#include "guest/grant/select.hpp"
#include "guest/grant/size.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::node {
namespace {

using tenancy::escape_untrusted;

std::unexpected<Error> unfit(const std::string& key, const std::string& text, std::string_view why,
                             const std::string& accepted) {
  return fail(ErrorCode::usage, key + " '" + escape_untrusted(text) + "' " + std::string(why), "accepted: " + accepted);
}

template <typename Value>
Result<Value> one_of(const std::string& key, const std::string& text,
                     std::initializer_list<std::pair<std::string_view, Value>> words) {
  std::string accepted;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    accepted += (accepted.empty() ? "" : ", ") + std::string(word);
  }
  return unfit(key, text, "is not understood", accepted);
}

Result<std::uint64_t> memory_on(const std::string& key, const std::string& text, const snapshot::Gpu& gpu) {
  const auto memory = grant::parse_memory(text);
  if (!memory) {
    const std::string hint = memory.fault == grant::Fault::bare_number
                                 ? "did you mean " + with_likely_unit(escape_untrusted(text)) + "? "
                                 : "";
    return fail(ErrorCode::usage,
                key + " '" + escape_untrusted(text) + "' " + std::string(grant::describe(memory.fault)),
                hint + "accepted: " + std::string(grant::accepted_memory(grant::Dialect::headgate)));
  }
  const std::uint64_t bytes = memory.value.on(gpu.memory_total_bytes);
  if (bytes == 0)
    return unfit(key, text, "is less than one byte of GPU " + std::to_string(gpu.index),
                 std::string(grant::accepted_memory(grant::Dialect::headgate)));
  return bytes;
}

Result<std::vector<const snapshot::Gpu*>> chosen(const std::string& selector, const std::vector<snapshot::Gpu>& gpus) {
  std::vector<grant::Candidate> candidates;
  for (const auto& gpu : gpus) {
    // "auto" takes the card with the most uncommitted memory; what already runs on it counts too.
    const std::uint64_t uncommitted = gpu.memory_uncommitted_bytes.value_or(
        gpu.memory_total_bytes - std::min(gpu.memory_total_bytes, gpu.memory_committed_bytes));
    candidates.push_back({gpu.uuid, gpu.pci_bus_id, std::min(uncommitted, gpu.memory_free_bytes)});
  }
  const grant::Selection selection = grant::select(selector, candidates);
  if (!selection) {
    std::string known;
    for (const auto& gpu : gpus)
      known += (known.empty() ? "" : ", ") + std::to_string(gpu.index) + " (" + gpu.uuid.substr(0, 12) + ")";
    return fail(
        selection.fault == grant::SelectFault::mig ? ErrorCode::unsupported : ErrorCode::usage,
        "gpu '" + escape_untrusted(selector) + "' " + std::string(grant::describe(selection.fault)),
        "accepted: " + std::string(grant::accepted_selectors()) + "; GPUs here: " + (known.empty() ? "none" : known));
  }
  std::vector<const snapshot::Gpu*> found;
  for (std::uint32_t i = 0; i < selection.count; ++i) found.push_back(&gpus[selection.index[i]]);
  return found;
}

// Adds "none" to the values that an error lists as accepted.
template <typename Value>
Result<Value> or_none(Result<Value> parsed) {
  if (!parsed && parsed.error().code == ErrorCode::usage) parsed.error().hint += ", or none";
  return parsed;
}

// Returns the ceiling of a share without a burst.
std::uint32_t ceiling_of(std::uint32_t guarantee_ppm) { return guarantee_ppm > 0 ? guarantee_ppm : ledger::kWholeGpu; }

// A burst that is not named stays: it is a separate bound, and a change of what is promised does not mention it.
Result<void> take_compute(const ShareRequest& order, const snapshot::Gpu& gpu, tenancy::DeviceShare& device) {
  const bool had_burst = device.ceiling_ppm != ceiling_of(device.guarantee_ppm);
  if (order.compute)
    device.guarantee_ppm = *order.compute == "none" ? 0 : TRY(or_none(compute_from("compute", *order.compute, gpu)));
  if (order.burst)
    device.ceiling_ppm = *order.burst == "none" ? ceiling_of(device.guarantee_ppm)
                                                : TRY(or_none(compute_from("burst", *order.burst, gpu)));
  else if (!had_burst) device.ceiling_ppm = ceiling_of(device.guarantee_ppm);
  if (device.ceiling_ppm >= device.guarantee_ppm) return {};
  if (order.burst)
    return unfit("burst", *order.burst, "is less than what compute promises",
                 "a part of the GPU at least as large as compute");
  return fail(ErrorCode::usage,
              "compute '" + escape_untrusted(*order.compute) + "' is more than the share's burst of " +
                  percent_text(device.ceiling_ppm) + ", which stays where it is not named",
              "name both: a burst at least as large, or the burst none, which makes compute the most too");
}

// Sets the values of one GPU of the share.
Result<void> take_device_values(const ShareRequest& order, const snapshot::Gpu& gpu, tenancy::DeviceShare& device) {
  if (order.mem && *order.mem == "none") device.memory_limit_bytes.reset();
  else if (order.mem) device.memory_limit_bytes = TRY(or_none(memory_on("mem", *order.mem, gpu)));
  if (order.host_mem && *order.host_mem == "none") device.host_limit_bytes = 0;
  else if (order.host_mem) device.host_limit_bytes = TRY(or_none(memory_on("host_mem", *order.host_mem, gpu)));
  TRY(take_compute(order, gpu, device));
  if (order.weight) {
    const auto weight = whole_number<std::uint32_t>(*order.weight);
    if (!weight || *weight < 1 || *weight > 1000) return unfit("weight", *order.weight, "is no weight", "1 to 1000");
    device.weight = *weight;
  }
  if (order.priority_class) {
    using enum tenancy::Class;
    device.priority_class = TRY(one_of<tenancy::Class>(
        "class", *order.priority_class, {{"best-effort", best_effort}, {"normal", normal}, {"latency", latency}}));
  }
  return {};
}

Result<std::optional<std::chrono::seconds>> time_or_none(const std::string& key, const std::string& text) {
  if (text == "none") return std::nullopt;
  return TRY(or_none(parse_duration(key, text)));
}

constexpr std::size_t kMaxNames = 256;

Result<std::vector<std::uint32_t>> ids(const std::string& key, const std::vector<std::string>& names,
                                       const auto& find) {
  std::vector<std::uint32_t> all;
  if (names == std::vector<std::string>{"none"}) return all;
  // Each is looked up again for each snapshot of the node.
  if (names.size() > kMaxNames)
    return unfit(key, std::to_string(names.size()) + " names", "are too many",
                 "at most " + std::to_string(kMaxNames) + " names; a group may have any number of members");
  for (const std::string& name : names) {
    std::optional<std::uint32_t> id = whole_number<std::uint32_t>(name);
    if (!id) id = TRY(find(name));
    if (!id || *id > kMaxId)
      return unfit(key, name, "is not known here",
                   "a name of this machine, a number of 0 to " + std::to_string(kMaxId) + ", or none alone");
    all.push_back(*id);
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

Result<std::optional<std::chrono::seconds>> oom_wait_from(const std::string& text) {
  const std::string accepted = "fail, wait (30s), or wait=TIME of 1s to 1h";
  if (text == "fail") return std::nullopt;
  if (text == "wait") return kDefaultOomWait;
  if (!text.starts_with("wait=")) return unfit("on_oom", text, "is not understood", accepted);
  const auto time = parse_duration("on_oom", text.substr(5));
  if (!time || *time > kLongestOomWait)
    return unfit("on_oom", text, "is no time that an allocation may wait", accepted);
  return *time;
}

Result<void> take_isolation(const std::string& text, tenancy::Share& share) {
  using enum tenancy::Isolation;
  share.isolation =
      TRY(one_of<tenancy::Isolation>("isolation", text, {{"hook", hook}, {"mps", mps}, {"timeslice", timeslice}}));
  // A program has one pipe directory, and each GPU a control daemon apart: a fault of one then stays its own.
  if (share.isolation != mps || share.devices.size() == 1) return {};
  return fail(ErrorCode::unsupported,
              "isolation 'mps': the share is on " + std::to_string(share.devices.size()) + " GPUs",
              "accepted: mps on one GPU (gpu); make a share for each of them");
}

Result<void> keep(std::string_view key, const ShareRequest::Text& asked, tenancy::Share& share) {
  const auto* const time = std::ranges::find(tenancy::kTimeAttributes, key, &tenancy::TimeAttribute::key);
  if (asked && time != std::end(tenancy::kTimeAttributes))
    share.*time->kept = TRY(time_or_none(std::string(key), *asked));
  return {};
}

Result<void> keep(std::string_view key, const ShareRequest::Flag& asked, tenancy::Share& share) {
  const auto* const flag = std::ranges::find(tenancy::kFlagAttributes, key, &tenancy::FlagAttribute::key);
  if (asked && flag != std::end(tenancy::kFlagAttributes)) share.*flag->kept = *asked;
  return {};
}

Result<void> keep_times_and_flags(const ShareRequest& order, tenancy::Share& share) {
  Result<void> kept;
  snapshot::each_attribute(order, [&](const snapshot::ShareAttribute& attribute, const auto& asked) {
    if constexpr (requires { keep(attribute.key, asked, share); })
      if (kept) kept = keep(attribute.key, asked, share);
  });
  return kept;
}

Result<void> take_share_values(const ShareRequest& order, const UserDirectory& directory, tenancy::Share& share) {
  TRY(keep_times_and_flags(order, share));
  if (order.gang) {
    share.gang = *order.gang == "none" ? "" : *order.gang;
    if (!share.gang.empty() && !tenancy::check_name(share.gang))
      return unfit("gang", *order.gang, "cannot name a gang", "a name like a share's, or none");
  }
  if (order.isolation) TRY(take_isolation(*order.isolation, share));
  if (order.admit) {
    using enum tenancy::Admit;
    share.admit = TRY(one_of<tenancy::Admit>("admit", *order.admit, {{"now", now}, {"ask", ask}}));
  }
  if (order.on_oom) share.oom_wait = TRY(oom_wait_from(*order.on_oom));
  if (order.fail_policy) {
    using enum ledger::FailPolicy;
    share.fail_policy =
        TRY(one_of<ledger::FailPolicy>("fail_policy", *order.fail_policy, {{"open", open}, {"closed", closed}}));
  }
  if (order.users) share.users = TRY(ids("users", *order.users, directory.user));
  if (order.groups) share.groups = TRY(ids("groups", *order.groups, directory.group));
  return {};
}

// Errors: unsupported, if the request names what a share keeps for life.
Result<void> check_fixed(const ShareRequest& order) {
  if (order.gpu)
    return fail(ErrorCode::unsupported,
                "the GPUs of a share cannot be changed: gpu '" + escape_untrusted(*order.gpu) + "'",
                "remove it and create it again");
  const char* const what = order.fail_policy ? "fail policy" : order.gang ? "gang" : order.isolation ? "isolation" : "";
  if (*what == '\0') return {};
  return fail(ErrorCode::unsupported, std::string("the ") + what + " of a share cannot be changed",
              "remove it and create it again");
}

}  // namespace

Result<std::chrono::seconds> parse_duration(const std::string& key, const std::string& text) {
  const auto time = read_duration(text);
  if (time) return *time;
  return unfit(key, text, time.error().why, std::string(time.error().accepted));
}

Result<std::uint32_t> compute_from(const std::string& key, const std::string& text, const snapshot::Gpu& gpu) {
  if (is_tflops(text)) {
    const auto wanted = parse_tflops(text);
    if (!wanted) return unfit(key, text, "is no amount of compute", "40TFLOPS, 900GFLOPS, 1.2PFLOPS, 50%, 0.5 or 500m");
    const auto card = gpu.half_precision_tflops ? gpu.half_precision_tflops : fp16_tflops(gpu.model);
    if (!card) {
      return fail(ErrorCode::unsupported,
                  key + " '" + escape_untrusted(text) + "': what a " + escape_untrusted(gpu.model) +
                      " computes is not in the table",
                  "write a percentage of the GPU, or its TFLOPS under [cards] in the configuration");
    }
    const double ppm = std::floor(*wanted / *card * 1e6);
    if (ppm < 1)
      return unfit(key, text, "is less than a millionth of GPU " + std::to_string(gpu.index),
                   "more, up to " + std::to_string(static_cast<int>(*card)) + "TFLOPS (" + gpu.model +
                       ", FP16); or 0.0001% of it at least");
    if (ppm > ledger::kWholeGpu) {
      return fail(ErrorCode::usage,
                  key + " '" + escape_untrusted(text) + "' does not fit GPU " + std::to_string(gpu.index),
                  "accepted: up to " + std::to_string(static_cast<int>(*card)) + "TFLOPS (" + gpu.model + ", FP16)");
    }
    return static_cast<std::uint32_t>(ppm);
  }
  const auto compute = grant::parse_compute(text);
  if (compute) return compute.value;
  const std::string hint =
      compute.fault == grant::Fault::bare_number ? "did you mean " + escape_untrusted(text) + "%? " : "";
  return fail(ErrorCode::usage,
              key + " '" + escape_untrusted(text) + "' " + std::string(grant::describe(compute.fault)),
              hint + "accepted: " + std::string(grant::accepted_compute(grant::Dialect::headgate)) + ", or 40TFLOPS");
}

Result<tenancy::Share> share_of(const ShareRequest& order, const tenancy::Share* before,
                                const std::vector<snapshot::Gpu>& gpus, const UserDirectory& directory) {
  tenancy::Share share = before != nullptr ? *before : tenancy::Share{};
  if (before == nullptr) {
    share.name = order.name.value_or("");
    TRY(tenancy::check_name(share.name));
    // Older shares may have such a name, but containers cannot be given them.
    if (!oci::is_device_name(share.name))
      return fail(ErrorCode::usage,
                  "'" + share.name + "' cannot name a new share: it is not a valid name of a CDI device",
                  "accepted: 1 to 63 letters, digits, '-', '_' or '.', a letter or digit first and last");
    if (gpus.empty())
      return fail(ErrorCode::unreachable, "the NVIDIA driver knows no GPU here",
                  "headgated --sim uses a simulated one");
    for (const snapshot::Gpu* gpu : TRY(chosen(order.gpu.value_or("auto"), gpus))) {
      // A lost GPU still counts, but cannot be identified.
      if (gpu->uuid.empty())
        return fail(ErrorCode::unreachable, "GPU " + std::to_string(gpu->index) + " " + gpu->model,
                    "name another one (gpu); what became of it: nvidia-smi and dmesg");
      tenancy::DeviceShare device;
      device.uuid = gpu->uuid;
      share.devices.push_back(device);
    }
  } else {
    TRY(check_fixed(order));
  }
  for (tenancy::DeviceShare& device : share.devices) {
    const auto gpu = std::ranges::find(gpus, device.uuid, &snapshot::Gpu::uuid);
    if (gpu == gpus.end())
      return fail(ErrorCode::unreachable, device.uuid + " is not a GPU of this node, or does not answer",
                  "see headgate status");
    TRY(take_device_values(order, *gpu, device));
  }
  TRY(take_share_values(order, directory, share));
  return share;
}

void lay_past_the_card(const ShareRequest& order, const std::vector<tenancy::Card>& cards,
                       const tenancy::Reserve& reserve, tenancy::Share& share) {
  if (!share.oversubscribe || !order.mem) return;
  for (tenancy::DeviceShare& device : share.devices) {
    const auto card = std::ranges::find(cards, device.uuid, &tenancy::Card::uuid);
    if (card == cards.end() || !device.memory_limit_bytes) continue;
    if (!order.host_mem) device.host_limit_bytes = 0;
    tenancy::DeviceShare whole;
    const std::uint64_t most = tenancy::asked_of(whole, *card, reserve);
    if (*device.memory_limit_bytes <= most) continue;
    device.host_limit_bytes = saturating_add(device.host_limit_bytes, *device.memory_limit_bytes - most);
    device.memory_limit_bytes = most;
  }
}

}  // namespace headgate::node
