#include "cli/run/run.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>
#include "base/standard_streams.hpp"
#include "base/units.hpp"

#include "cli/run/child_env.hpp"
#include "cli/run/launch.hpp"
#include "cli/run/low_ceiling.hpp"
#include "cli/run/program.hpp"
#include "cli/run/run_daemon.hpp"
#include "cli/run/run_request.hpp"
#include "cli/share/daemon.hpp"
#include "cli/view/names.hpp"
#include "cli/view/own_ledgers.hpp"
#include "guest/grant/text.hpp"
#include "install/devices.hpp"
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
    if (found == gpus.list.end()) {
      return fail(ErrorCode::unreachable,
                  std::string("the share '") + held.name + "' is on " + held.devices[i].uuid +
                      ", which is not a GPU of this node",
                  "choose another --name, or look at the node the share was made on (--sim)");
    }
    chosen.push_back(static_cast<std::size_t>(found - gpus.list.begin()));
  }
  return chosen;
}

Result<Plan> make_plan(const Invocation& invocation, const config::Config& config) {
  RunRequest request = TRY(read_run_request(invocation.run, config));
  Plan plan;
  plan.source = TRY(install::source_for(invocation.simulate, config["sim.profile"].value));
  plan.gpus = TRY(install::read_gpus(plan.source));
  if (plan.gpus.list.empty())
    return fail(ErrorCode::unreachable, "the NVIDIA driver knows no GPU here",
                "'headgate run --sim ...' uses a simulated GPU");
  plan.base = TRY(install::runtime_dir());
  if (!request.name && !install::environment("HEADGATE_SHARE").empty())
    request.name = install::environment("HEADGATE_SHARE");
  plan.named = request.name.has_value();
  plan.name = request.name.value_or("");
  if (plan.named && !grant::is_share_name(plan.name)) {
    return fail(ErrorCode::usage,
                "the environment variable HEADGATE_SHARE='" + harmless(plan.name) + "' cannot name a share",
                "accepted: " + std::string(grant::accepted(grant::Syntax::share_name)));
  }
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
  if (const auto held = existing(plan.base, plan.name); held && held->device_count > 0) {
    error.message += ": it has " + values_text(held->devices[0]) + " on " + held->devices[0].uuid + ", asked was " +
                     values_text(plan.grant.devices[0]) + " on " + plan.grant.devices[0].uuid;
  }
  return error;
}

Result<void> enter(Plan& plan, Seat& seat) {
  if (auto made = install::make_private_directory(plan.base); !made) return made;
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
          fault.error == ledger::PageError::no_permission) {
        error.hint = "set HEADGATE_RUNTIME_DIR or XDG_RUNTIME_DIR to a directory with room that you may write";
      }
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
  std::string where;
  for (const std::size_t index : plan.chosen) {
    where += (where.empty() ? "" : ", ") + snapshot::gpu_name(plan.gpus.list[index]);
  }
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

Result<int> start(const Invocation& invocation, const config::Config& config, const Program& program) {
  Plan plan = TRY(make_plan(invocation, config));
  TRY(install::limiter_library());
  ::prctl(PR_SET_NAME, observe::kWaiterName);
  Seat seat;
  if (auto entered = enter(plan, seat); !entered) return std::unexpected(entered.error());
  if (invocation.voice.talk) announce(plan);
  remark_on_low_ceiling(ceilings(plan.grant), invocation.voice);
  auto environment = child_environment(entry_of(plan), config);
  auto status = environment ? run_and_wait({program.path, invocation.run.command, std::move(*environment)})
                            : std::unexpected(environment.error());
  seat.leave();
  // A named share stays, with its account and history, for the next run with that name.
  bool removed = false;
  if (!plan.named) (void)ledger::remove_if_empty(plan.base.c_str(), plan.name.c_str(), removed);
  return status;
}

// Runs in the named share, or in one that the daemon makes. Without a daemon, or on a private simulated node, makes a
// share itself.
Result<int> start_where(const Invocation& invocation, const config::Config& config, const Program& program) {
  if (invocation.run.share) return run_in_share(invocation, config, program);
  if (!invocation.simulate) {
    if (const auto daemon = TRY(await_daemon())) return run_by_daemon(*daemon, invocation, config, program);
  }
  if (auto ok = refuse_what_needs_the_daemon(invocation.run); !ok) return std::unexpected(ok.error());
  if (const auto silent = socket_left_behind(); silent && !invocation.simulate)
    say("headgated does not answer at " + harmless(*silent) +
        ": the share is without it, and is not counted as committed");
  return start(invocation, config, program);
}

Result<void> check(const Invocation& invocation) {
  if (invocation.run.command.empty())
    return fail(ErrorCode::usage, "run: no command was given",
                "write it after '--', such as: headgate run --mem 8GiB -- python train.py");
  return refuse_nesting();
}

int give_up(const Error& error, const Voice& voice) {
  complain(error, voice);
  const int status = exit_status(error.code);
  return status == 1 ? 125 : status;  // 1 is reserved for the program
}

}  // namespace

int run(const Invocation& invocation, const config::Config& config) {
  fill_standard_streams();
  const Voice& voice = invocation.voice;
  if (auto ok = check(invocation); !ok) return give_up(ok.error(), voice);
  const auto program = find_program(invocation.run.command.front());
  if (!program) {
    complain(program.error().error, voice);
    return program.error().status;
  }
  // Check values first: a mistyped limit matters more to the user than the kind of program.
  if (auto request = read_run_request(invocation.run, config); !request) return give_up(request.error(), voice);
  if (auto ok = refuse_unheld(*program, invocation.run); !ok) return give_up(ok.error(), voice);
  const auto status = start_where(invocation, config, *program);
  return status ? *status : give_up(status.error(), voice);
}

}  // namespace headgate::cli
