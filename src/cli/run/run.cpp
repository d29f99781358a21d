// `headgate run`: runs a program inside a share.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/standard_streams.hpp"
#include "base/units.hpp"

#include "cli/commands.hpp"
#include "cli/run/run_daemon.hpp"
#include "cli/share/daemon.hpp"
#include "cli/view/names.hpp"
#include "cli/view/own_ledgers.hpp"
#include "guest/grant/text.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"

namespace headgate::cli {
namespace {

// Holds a slot in the share for the command, so that the share does not look abandoned while the command waits.
class Seat {
 public:
  Seat() = default;
  Seat(const Seat&) = delete;
  ~Seat() { leave(); }

  void leave() {
    if (pages.usage != nullptr) ledger::release(*pages.usage, slot);
    ledger::close_pages(pages);
    pages = {};
  }

  ledger::SharePages pages;
  ledger::SlotRef slot;
};

struct Plan {
  install::Source source;
  install::Gpus gpus;
  std::vector<std::size_t> chosen;
  std::string base, name;
  bool named = false;
  ledger::ShareGrant grant;
};

Result<void> refuse_what_needs_the_daemon(const RunOptions& run) {
  if (!run.weight && !run.wait && !run.on_oom && !run.priority_class && !run.ttl) return {};
  if (run.ttl)
    return fail(ErrorCode::unsupported,
                "--ttl needs the daemon (headgated), which keeps the time; it is not running here",
                "without it a share ends with its last program; timeout(1) ends a program in time");
  if (run.on_oom)
    return fail(
        ErrorCode::unsupported,
        "--on-oom needs the daemon (headgated), which makes other shares return memory to those that wait; it is not "
        "running here",
        "without it an allocation for which there is no room is refused at once; leave the option out");
  return fail(ErrorCode::unsupported,
              std::string(run.weight           ? "--weight"
                          : run.priority_class ? "--class"
                                               : "--wait") +
                  " needs the daemon (headgated), which decides between shares; it is not running here",
              "without it a share has a ceiling, and a burst above it: --compute, --burst");
}

Result<void> refuse_nesting() {
  if (install::environment("HEADGATE_SHARE").empty() || !install::environment("LD_PRELOAD").contains("libheadgate.so"))
    return {};
  return fail(ErrorCode::unsupported,
              "this program runs inside the share '" + install::environment("HEADGATE_SHARE") + "' already",
              "start it outside, or start the command directly: it is held as well");
}

Result<void> refuse_unheld(const Program& program, const RunOptions& run) {
  if (!program.unheld) return {};
  if (run.allow_unenforced) {
    say("NOT HELD: " + *program.unheld);
    return {};
  }
  return fail(ErrorCode::unsupported, "cannot hold it: " + *program.unheld,
              "--allow-unenforced starts it without limits; a container with its own GPU, MPS or MIG can hold it");
}

std::optional<ledger::ShareGrant> existing(const std::string& base, const std::string& name) {
  ledger::SharePages pages;
  if (ledger::open_share(base.c_str(), name.c_str(), ledger::Access::owner, pages)) return std::nullopt;
  const ledger::ShareGrant grant = ledger::grant_of(*pages.policy);
  ledger::close_pages(pages);
  return grant;
}

// Returns an existing share's GPUs, if no others were requested.
Result<std::vector<std::size_t>> gpus_of(const ledger::ShareGrant& held, const install::Gpus& gpus) {
  std::vector<std::size_t> chosen;
  for (std::uint32_t i = 0; i < held.device_count; ++i) {
    const auto found = std::ranges::find(gpus.list, held.devices[i].uuid, &snapshot::Gpu::uuid);
    if (found == gpus.list.end())
      return fail(ErrorCode::unreachable,
                  std::string("the share '") + held.name + "' is on " + held.devices[i].uuid +
                      ", which is not a GPU of this node",
                  "choose another --name, or look at the node the share was made on (--sim)");
    chosen.push_back(static_cast<std::size_t>(found - gpus.list.begin()));
  }
  return chosen;
}

Result<Plan> make_plan(const RunCall& asked) {
  const config::Config& config = asked.config();
  RunRequest request = TRY(read_run_request(asked.options, config));
  Plan plan;
  plan.source = TRY(install::source_for(asked.call.simulate, config["sim.profile"].value));
  plan.gpus = TRY(install::read_gpus(plan.source));
  if (plan.gpus.list.empty())
    return fail(ErrorCode::unreachable, "the NVIDIA driver knows no GPU here",
                "'headgate run --sim ...' uses a simulated GPU");
  plan.base = TRY(install::runtime_dir());
  if (!request.name && !install::environment("HEADGATE_SHARE").empty())
    request.name = install::environment("HEADGATE_SHARE");
  plan.named = request.name.has_value();
  plan.name = request.name.value_or("");
  if (plan.named && !grant::is_share_name(plan.name))
    return fail(ErrorCode::usage,
                "the environment variable HEADGATE_SHARE='" + harmless(plan.name) + "' cannot name a share",
                "accepted: " + std::string(grant::accepted(grant::Syntax::share_name)));
  const auto held = plan.named ? existing(plan.base, plan.name) : std::nullopt;
  const std::string from_environment = install::environment("HEADGATE_GPU");
  if (request.gpu) plan.chosen = TRY(choose_gpus("--gpu", *request.gpu, plan.gpus));
  else if (!from_environment.empty()) plan.chosen = TRY(choose_gpus("HEADGATE_GPU", from_environment, plan.gpus));
  else if (held) plan.chosen = TRY(gpus_of(*held, plan.gpus));
  else if (const auto visible = install::environment("CUDA_VISIBLE_DEVICES"); !visible.empty())
    plan.chosen = TRY(choose_gpus("CUDA_VISIBLE_DEVICES", visible, plan.gpus));
  else plan.chosen = TRY(choose_gpus("--gpu", "auto", plan.gpus));
  plan.grant = TRY(make_grant(request, plan.gpus, plan.chosen, ::environ, held));
  return plan;
}

std::string values_text(const ledger::DeviceGrant& device) {
  const bool limited = device.memory_limit_bytes != ledger::kNoMemoryLimit;
  return (limited ? bytes_text(device.memory_limit_bytes) : "no memory limit") +
         (device.host_limit_bytes != 0 ? " and " + bytes_text(device.host_limit_bytes) + " of host memory" : "") +
         ", " +
         (device.compute_ceiling_ppm == ledger::kWholeGpu ? "no compute limit"
                                                          : percent_text(device.compute_ceiling_ppm)) +
         (device.compute_burst_ppm == 0
              ? ""
              : " (" + percent_text(device.compute_burst_ppm) + " while no other share works)");
}

Error differs(const Plan& plan) {
  Error error{ErrorCode::usage, "the share '" + plan.name + "' is in use with other values",
              "use the same values, leave them out to join it as it is, or choose another --name"};
  if (const auto held = existing(plan.base, plan.name); held && held->device_count > 0)
    error.message += ": it has " + values_text(held->devices[0]) + " on " + held->devices[0].uuid + ", asked was " +
                     values_text(plan.grant.devices[0]) + " on " + plan.grant.devices[0].uuid;
  return error;
}

Result<void> enter(Plan& plan, Seat& seat) {
  TRY(install::make_private_directory(plan.base));
  for (int attempt = 0;; ++attempt) {
    if (!plan.named) plan.name = random_name();
    std::memset(plan.grant.name, 0, sizeof plan.grant.name);
    std::strncpy(plan.grant.name, plan.name.c_str(), sizeof plan.grant.name - 1);
    if (!plan.named && existing(plan.base, plan.name)) continue;
    const auto fault = ledger::enter_share(plan.base.c_str(), plan.name.c_str(), &plan.grant, seat.pages, seat.slot);
    if (!fault) return {};
    if (fault.error != ledger::PageError::different_values) {
      Error error = share_error(fault, plan.base, plan.name);
      if (fault.error == ledger::PageError::read_only || fault.error == ledger::PageError::no_space ||
          fault.error == ledger::PageError::no_permission)
        error.hint = "set HEADGATE_RUNTIME_DIR or XDG_RUNTIME_DIR to a directory with room that you may write";
      return std::unexpected(error);
    }
    // The share is empty, so its values no longer matter: remove it and create it again.
    bool removed = false;
    if (attempt > 0 || ledger::remove_if_empty(plan.base.c_str(), plan.name.c_str(), removed) || !removed)
      return std::unexpected(differs(plan));
  }
}

std::size_t neighbours(const Plan& plan) {
  const OwnLedgers ledgers = read_own_ledgers(plan.base);
  return static_cast<std::size_t>(std::ranges::count_if(ledgers.list, [&](const observe::LedgerSnapshot& ledger) {
    if (ledger.share.name == plan.name || !ledger.attended) return false;
    return std::ranges::any_of(ledger.share.devices, [&](const snapshot::ShareDevice& device) {
      return std::ranges::any_of(plan.chosen,
                                 [&](std::size_t index) { return plan.gpus.list[index].uuid == device.uuid; });
    });
  }));
}

void announce(const Plan& plan) {
  const std::string where =
      joined(plan.chosen, ", ", [&](std::size_t index) { return snapshot::gpu_name(plan.gpus.list[index]); });
  const std::size_t others = neighbours(plan);
  const std::string level = observe::level_word(plan.grant.level);
  say("share " + plan.name + " on " + where + ": " + (plan.chosen.size() > 1 ? "each " : "") +
      values_text(plan.grant.devices[0]) + (is_weak(level) ? ", level " + level : "") +
      (plan.gpus.simulated ? ", SIMULATED" : "") +
      (others == 0 ? ""
                   : "; compute is approximate: " + std::to_string(others) +
                         (others == 1 ? " other share" : " other shares") + " on the card and no daemon"));
}

std::vector<double> ceilings(const ledger::ShareGrant& grant) {
  std::vector<double> ratios;
  for (std::uint32_t i = 0; i < grant.device_count; ++i) ratios.push_back(grant.devices[i].compute_ceiling_ppm / 1e6);
  return ratios;
}

Entry entry_of(const Plan& plan) {
  Entry entry{plan.base, plan.name, {}, plan.source.simulated_directory};
  for (const std::size_t index : plan.chosen) entry.uuids.push_back(plan.gpus.list[index].uuid);
  return entry;
}

Result<int> start(const RunCall& asked) {
  Plan plan = TRY(make_plan(asked));
  TRY(install::limiter_library());
  ::prctl(PR_SET_NAME, observe::kWaiterName);
  Seat seat;
  TRY(enter(plan, seat));
  if (asked.call.voice.talk) announce(plan);
  remark_on_low_ceiling(ceilings(plan.grant), asked.call.voice);
  auto environment = child_environment(entry_of(plan), asked.config());
  auto status = environment ? run_and_wait({asked.program.path, asked.call.words, std::move(*environment)})
                            : std::unexpected(environment.error());
  seat.leave();
  // A named share stays, with its account and history, for the next run with that name.
  bool removed = false;
  if (!plan.named) (void)ledger::remove_if_empty(plan.base.c_str(), plan.name.c_str(), removed);
  return status;
}

// Runs in the named share, or in one that the daemon makes. Without a daemon, or on a private simulated node, makes a
// share itself.
Result<int> start_where(const RunCall& asked) {
  if (asked.options.share) return run_in_share(asked);
  if (!asked.call.simulate)
    if (const auto daemon = TRY(await_daemon())) return run_by_daemon(*daemon, asked);
  TRY(refuse_what_needs_the_daemon(asked.options));
  if (const auto silent = socket_left_behind(); silent && !asked.call.simulate)
    say("headgated does not answer at " + harmless(*silent) +
        ": the share is without it, and is not counted as committed");
  return start(asked);
}

Result<int> checked_and_started(const Call& call, const RunOptions& run) {
  if (call.words.empty())
    return fail(ErrorCode::usage, "run: no command was given",
                "write it after '--', such as: headgate run --mem 8GiB -- python train.py");
  TRY(refuse_nesting());
  const auto program = find_program(call.words.front());
  if (!program) {
    complain(program.error().error, call.voice);
    return program.error().status;
  }
  // Check values first: a mistyped limit matters more to the user than the kind of program.
  TRY(read_run_request(run, call.configuration.config));
  TRY(refuse_unheld(*program, run));
  return start_where({call, run, *program});
}

// Returns the program's exit status, or ours: 2 usage, 3 no driver, 4 no capacity, 5 denied, 6 unsupported, 125 another
// failure before the program ran, 126 and 127 as in a shell.
Result<int> run(const Call& call, const RunOptions& options) {
  fill_standard_streams();
  const auto status = checked_and_started(call, options);
  if (status || exit_status(status.error().code) != 1) return status;
  complain(status.error(), call.voice);
  return 125;  // 1 is reserved for the program
}

}  // namespace

Commands run_commands() {
  return {command<RunOptions>(kStart, "run", "run a program inside a share", add_run_options, run)};
}

}  // namespace headgate::cli
