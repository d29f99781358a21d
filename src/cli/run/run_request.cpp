#include "cli/run/run_request.hpp"

#include <array>
#include <cstring>
#include <random>

#include "base/units.hpp"
#include "cli/term/output.hpp"
#include "cli/view/names.hpp"
#include "guest/grant/gpu_throughput.hpp"
#include "guest/grant/select.hpp"

namespace headgate::cli {
namespace {

std::string quoted(const std::string& option, const std::string& text) { return option + " '" + harmless(text) + "'"; }

// NAME='VALUE'
std::string quoted_entry(const std::string& entry) {
  const std::size_t equals = entry.find('=');
  return entry.substr(0, equals) + "='" + harmless(entry.substr(equals + 1)) + "'";
}

std::string accepted(std::string_view forms) { return "accepted: " + std::string(forms); }

std::vector<grant::Candidate> candidates(const install::Gpus& gpus) {
  std::vector<grant::Candidate> all;
  for (const snapshot::Gpu& gpu : gpus.list) all.push_back({gpu.uuid, gpu.pci_bus_id, gpu.memory_free_bytes});
  return all;
}

Error refused_variable(const grant::Refusal& refusal) {
  std::array<char, 512> line{};
  grant::describe(refusal, line);
  return {ErrorCode::usage, std::string("the environment variable ") + line.data(), "correct it, or unset it"};
}

// Parses the environment's grant, by index into gpus.list (a process sees at most kMaxDevices GPUs).
Result<grant::Grant> environment_grant(const char* const* environment, const install::Gpus& gpus) {
  std::vector<std::string_view> uuids;
  for (const snapshot::Gpu& gpu : gpus.list) uuids.push_back(gpu.uuid);
  const grant::Reading reading = grant::read_environment(environment, uuids, uuids);
  if (!reading.refusal) return reading.grant;
  return std::unexpected(refused_variable(reading.refusal));
}

const ledger::DeviceGrant* device_of(const std::optional<ledger::ShareGrant>& held, const std::string& uuid) {
  if (!held) return nullptr;
  for (std::uint32_t i = 0; i < held->device_count; ++i)
    if (uuid == held->devices[i].uuid) return &held->devices[i];
  return nullptr;
}

// Precedence: option, environment, existing share, configuration.
Result<grant::MemorySplit> memory_for(const RunRequest& request, const grant::DeviceGrant& env,
                                      const ledger::DeviceGrant* held, const snapshot::Gpu& gpu) {
  std::optional<grant::Memory> memory;
  std::string said_by = request.memory_text;
  if (request.memory && !request.memory_is_default) memory = request.memory;
  else if (env.memory.said())
    memory = env.memory, said_by = "the environment variable " + quoted_entry(env.memory_entry);
  else if (held != nullptr) return grant::MemorySplit{held->memory_limit_bytes, 0};
  else if (request.memory) memory = request.memory;
  if (!memory) return grant::MemorySplit{ledger::kNoMemoryLimit, 0};
  const grant::MemorySplit split =
      grant::split_memory({.memory = *memory, .oversubscribe_ppm = env.oversubscribe_ppm}, gpu.memory_total_bytes);
  const std::uint64_t bytes = split.card_bytes;
  if (bytes > gpu.memory_total_bytes)
    return fail(ErrorCode::no_capacity,
                said_by + " is more than " + snapshot::gpu_name(gpu) + " has: " + bytes_text(gpu.memory_total_bytes),
                "ask for at most " + bytes_text(gpu.memory_total_bytes) + ", or choose another GPU with --gpu");
  if (bytes == 0)
    return fail(ErrorCode::usage, said_by + " is less than one byte of GPU " + std::to_string(gpu.index),
                accepted(grant::accepted_memory(grant::Dialect::headgate)));
  return split;
}

std::uint64_t host_memory_for(const RunRequest& request, const grant::DeviceGrant& env, const ledger::DeviceGrant* held,
                              const snapshot::Gpu& gpu, const grant::MemorySplit& split) {
  if (request.host_memory) return request.host_memory->on(gpu.memory_total_bytes);
  if (env.host_memory.said()) return env.host_memory.on(gpu.memory_total_bytes);
  if (split.host_bytes != 0) return split.host_bytes;
  return held != nullptr ? held->host_limit_bytes : 0;
}

// Converts TFLOPS to a fraction of that GPU.
Result<std::uint32_t> part_of_card(const std::string& option, double tflops, const snapshot::Gpu& gpu,
                                   const GpuThroughput& own) {
  const std::string asked = option + " " + std::to_string(tflops) + " TFLOPS";
  const auto card = fp16_tflops(gpu.model, own);
  if (!card)
    return fail(ErrorCode::unsupported, asked + ": what a " + harmless(gpu.model) + " computes is not in the table",
                "write a percentage of the GPU, or its TFLOPS under [cards] in the configuration");
  const double ppm = tflops / *card * 1e6;
  if (ppm >= ledger::kWholeGpu + 1.0 || ppm < 1)
    return fail(
        ErrorCode::usage, asked + " does not fit GPU " + std::to_string(gpu.index),
        accepted("up to " + std::to_string(static_cast<int>(*card)) + "TFLOPS (" + short_model(gpu.model) + ", FP16)"));
  return static_cast<std::uint32_t>(ppm);
}

Result<std::uint32_t> ceiling_for(const RunRequest& request, const grant::DeviceGrant& env,
                                  const ledger::DeviceGrant* held, const snapshot::Gpu& gpu) {
  if (request.compute_tflops && !request.compute_is_default)
    return part_of_card("--compute", *request.compute_tflops, gpu, request.cards);
  if (request.compute_ppm && !request.compute_is_default) return *request.compute_ppm;
  if (env.ceiling_megaflops != 0)
    return part_of_card("HEADGATE_COMPUTE", static_cast<double>(env.ceiling_megaflops) / 1e6, gpu, request.cards);
  if (env.ceiling_ppm != 0) return env.ceiling_ppm;
  if (held != nullptr) return held->compute_ceiling_ppm;
  if (request.compute_tflops) return part_of_card("defaults.compute", *request.compute_tflops, gpu, request.cards);
  return request.compute_ppm.value_or(ledger::kWholeGpu);
}

// A burst belongs to the ceiling that it was given with: a new ceiling does not inherit the share's burst.
Result<std::uint32_t> burst_for(const RunRequest& request, const grant::DeviceGrant& env,
                                const ledger::DeviceGrant* held, std::uint32_t ceiling_ppm) {
  if (request.burst_ppm) {
    if (*request.burst_ppm > ceiling_ppm) return *request.burst_ppm;
    return fail(ErrorCode::usage,
                "--burst " + percent_text(*request.burst_ppm) + " is not above the share's limit of " +
                    percent_text(ceiling_ppm),
                "a burst is what the share may use while no other works: ask for more than --compute, or leave it out");
  }
  // The hard limit may come from an option instead of the environment.
  if (env.soft_ppm != 0 && ceiling_ppm == ledger::kWholeGpu)
    if (const grant::Refusal refusal = grant::check_burst(env)) return std::unexpected(refused_variable(refusal));
  if (env.soft_ppm > ceiling_ppm) return env.soft_ppm;
  return held != nullptr && held->compute_ceiling_ppm == ceiling_ppm ? held->compute_burst_ppm : 0;
}

}  // namespace

void add_run_options(Options& options, RunOptions& run) {
  options.simulated();
  options.text("-i,--gpu", "GPUS", "which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all, auto", run.gpu);
  options.text("-m,--mem", "SIZE", "memory limit on each GPU: 8GiB, 8GB, 50%", run.mem);
  options.text("--host-mem", "SIZE",
               "host memory that stands in for the GPU's past --mem: 8GiB (slower; without it the limit is hard)",
               run.host_mem);
  options.text("-c,--compute", "PART", "share of each GPU's time: 50%, 0.5, 500m, 40TFLOPS", run.compute);
  options.text("--share", "NAME", "run in this existing share of headgated", run.share).completes = ":share";
  options.text("--name", "NAME", "the share's name; programs with the same name are in one share", run.name);
  options.text("--burst", "PART", "use up to this while no other share has work there: 80%", run.burst);
  options.text("--weight", "N", "part of what is left over (needs the daemon): 1 to 1000 (users: to 100)", run.weight);
  options.text("--wait", "TIME", "wait until there is room (needs the daemon); --wait=5m: at most that long", run.wait)
      .takes = Takes::at_most_one;
  options.text("--on-oom", "WHAT", "if an allocation does not fit (needs the daemon): fail, wait (30s), wait=5m",
               run.on_oom);
  options.text("--class", "CLASS", "best-effort, normal, or latency (which administrators give; needs the daemon)",
               run.priority_class);
  options.text("--ttl", "TIME", "time to live, after which no process may join (needs the daemon): 8h, 7d", run.ttl);
  options.flag("--allow-unenforced", "start the program without limits if the limiter cannot be loaded into it",
               run.allow_unenforced);
  options.flag("--allow-unheld", "", run.allow_unenforced).renamed_to = "--allow-unenforced";
  options.footer = "Write the command after '--': headgate run --mem 8GiB --compute 50% -- python train.py";
  options.rest = Rest::program;
}

Result<grant::Memory> memory_option(const std::string& option, const std::string& text) {
  const auto memory = grant::parse_memory(text);
  if (memory) return memory.value;
  const std::string hint =
      memory.fault == grant::Fault::bare_number ? "did you mean " + with_likely_unit(harmless(text)) + "? " : "";
  return fail(ErrorCode::usage, quoted(option, text) + " " + std::string(grant::describe(memory.fault)),
              hint + accepted(grant::accepted_memory(grant::Dialect::headgate)));
}

Result<std::uint32_t> compute_option(const std::string& option, const std::string& text) {
  const auto compute = grant::parse_compute(text);
  if (compute) return compute.value;
  const std::string hint = compute.fault == grant::Fault::bare_number ? "did you mean " + harmless(text) + "%? " : "";
  return fail(ErrorCode::usage, quoted(option, text) + " " + std::string(grant::describe(compute.fault)),
              hint + accepted(grant::accepted_compute(grant::Dialect::headgate)));
}

Result<RunRequest> read_run_request(const RunOptions& run, const config::Config& config) {
  RunRequest request;
  request.gpu = run.gpu;
  request.name = run.name;
  const auto& default_memory = config["defaults.mem"];
  const auto& default_compute = config["defaults.compute"];
  if (run.mem)
    request.memory = TRY(memory_option("--mem", *run.mem)), request.memory_text = "--mem " + harmless(*run.mem);
  else if (!default_memory.value.empty()) {
    request.memory = TRY(memory_option("defaults.mem", default_memory.value));
    request.memory_text = "defaults.mem = " + default_memory.value + " (" + default_memory.origin + ")";
    request.memory_is_default = true;
  }
  if (run.host_mem) request.host_memory = TRY(memory_option("--host-mem", *run.host_mem));
  request.cards = config.cards();
  if (run.compute && is_tflops(*run.compute)) {
    request.compute_tflops = parse_tflops(*run.compute);
    if (!request.compute_tflops)
      return fail(ErrorCode::usage, quoted("--compute", *run.compute) + " is no amount of compute",
                  accepted("40TFLOPS, 900GFLOPS, 1.2PFLOPS, 50%, 0.5 or 500m"));
  } else if (run.compute) request.compute_ppm = TRY(compute_option("--compute", *run.compute));
  else if (!default_compute.value.empty())
    request.compute_ppm = TRY(compute_option("defaults.compute", default_compute.value)),
    request.compute_is_default = true;
  if (run.burst) request.burst_ppm = TRY(compute_option("--burst", *run.burst));
  if (run.name && !grant::is_share_name(*run.name))
    return fail(ErrorCode::usage, quoted("--name", *run.name) + " cannot name a share",
                accepted(grant::accepted(grant::Syntax::share_name)));
  request.fail_closed = config["defaults.fail_policy"].value == "closed";
  return request;
}

Result<std::vector<std::size_t>> choose_gpus(const std::string& option, const std::string& selector,
                                             const install::Gpus& gpus) {
  const grant::Selection selection = grant::select(selector, candidates(gpus));
  if (selection) return std::vector<std::size_t>(selection.index, selection.index + selection.count);
  std::string message = quoted(option, selector);
  const std::string token(selection.token);
  message += token.empty() || token == selector ? " " : ": '" + harmless(token) + "' ";
  message += grant::describe(selection.fault);
  const std::string known = joined(gpus.list, ", ", [](const snapshot::Gpu& gpu) {
    return std::to_string(gpu.index) + " (" + gpu.uuid.substr(0, 12) + ")";
  });
  return fail(selection.fault == grant::SelectFault::mig ? ErrorCode::unsupported : ErrorCode::usage, message,
              accepted(grant::accepted_selectors()) + "; GPUs here: " + (known.empty() ? "none" : known));
}

Result<std::vector<std::string>> choose_uuids(const std::string& option, const std::string& selector,
                                              const snapshot::Snapshot& snapshot) {
  std::vector<std::string> uuids;
  for (const std::size_t index : TRY(choose_gpus(option, selector, gpus_in(snapshot))))
    uuids.push_back(snapshot.gpus[index].uuid);
  return uuids;
}

install::Gpus gpus_in(const snapshot::Snapshot& snapshot) {
  return {snapshot.gpus, snapshot.node.driver_version, snapshot.node.simulated};
}

Result<ledger::ShareGrant> make_grant(const RunRequest& request, const install::Gpus& gpus,
                                      const std::vector<std::size_t>& chosen, const char* const* environment,
                                      const std::optional<ledger::ShareGrant>& held) {
  const grant::Grant env = TRY(environment_grant(environment, gpus));
  ledger::ShareGrant grant;
  grant.level = ledger::Level::hook;
  grant.fail_policy = request.fail_closed || env.fail_closed ? ledger::FailPolicy::closed : ledger::FailPolicy::open;
  if (held) grant.fail_policy = held->fail_policy;
  for (const std::size_t index : chosen) {
    const snapshot::Gpu& gpu = gpus.list[index];
    const grant::DeviceGrant nothing;
    const grant::DeviceGrant& said = index < grant::kMaxDevices ? env.devices[index] : nothing;
    const ledger::DeviceGrant* before = device_of(held, gpu.uuid);
    ledger::DeviceGrant& device = grant.devices[grant.device_count++];
    std::strncpy(device.uuid, gpu.uuid.c_str(), sizeof device.uuid - 1);
    const grant::MemorySplit memory = TRY(memory_for(request, said, before, gpu));
    device.memory_limit_bytes = memory.card_bytes;
    device.host_limit_bytes = host_memory_for(request, said, before, gpu, memory);
    device.oversubscribed = memory.host_bytes != 0 || (before != nullptr && before->oversubscribed);
    device.compute_ceiling_ppm = TRY(ceiling_for(request, said, before, gpu));
    device.compute_burst_ppm = TRY(burst_for(request, said, before, device.compute_ceiling_ppm));
  }
  return grant;
}

std::string random_name() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string name = "run-";
  for (int i = 0; i < 8; ++i) name += kDigits[random() % 16];
  return name;
}

}  // namespace headgate::cli
