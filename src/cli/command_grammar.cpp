#include "cli/command_grammar.hpp"

#include <CLI/CLI.hpp>

namespace headgate::cli {
namespace {

// Accepts an option under its name of the last release: hidden from help, with a warning when used (docs/compat.md).
void renamed(CLI::Option* option, Raw& raw, const char* before, const char* now) {
  raw.renamed.push_back({option->group(""), before, now});
}

// Headings in --help.
constexpr const char* kOutput = "Output";
constexpr const char* kStart = "Start";
constexpr const char* kLook = "Look";
constexpr const char* kManage = "Manage";
constexpr const char* kContainers = "Containers";
constexpr const char* kPlumbing = "Plumbing";
constexpr const char* kCommands = "Commands";

// The help of a command has one line for the options that all commands have; `headgate --help` describes them.
struct CommandFormatter : CLI::Formatter {
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group != kOutput) return CLI::Formatter::make_group(group, is_positional, options);
    return "\nAlso: -o FORM, --json, --no-color, --ascii, -q, -v, --config FILE (see headgate --help)\n";
  }
};

void say_how(CLI::App& app, Raw& raw) {
  app.add_option("-o,--output", raw.output,
                 "table, json; commands that list things also have wide, jsonl (a line each) and csv")
      ->type_name("FORM")
      ->group(kOutput);
  app.add_flag("--json", raw.json, "the same as --output json")->group(kOutput);
  app.add_flag("--no-color,--no-colour", raw.no_colour, "no colours (also: NO_COLOR)")->group(kOutput);
  app.add_flag("--ascii", raw.ascii, "nothing beyond ASCII")->group(kOutput);
  app.add_flag("-q,--quiet", raw.out.voice.quiet, "no remarks on stderr")->group(kOutput);
  app.add_flag("-v,--verbose", raw.out.voice.verbose, "remarks on stderr even when it is not a terminal")
      ->group(kOutput);
  app.add_option("--config", raw.out.config_path, "configuration file instead of /etc/headgate/config.toml")
      ->type_name("FILE")
      ->group(kOutput);
}

void say_how_long(CLI::App& app, Raw& raw) {
  app.add_option("--interval", raw.interval, "time over which rates are measured (100ms)")->type_name("TIME");
}

void say_whether_again(CLI::App& app, Raw& raw) {
  app.add_option("--watch", raw.watch, "repeat until Ctrl-C or q, every 2 s; --watch=5s: another interval")
      ->type_name("TIME")
      ->expected(0, 1);
}

void say_where(CLI::App& app, Raw& raw) {
  // The profile is accepted only as --sim=PROFILE (see split_profiles): a word after --sim is the program's.
  app.add_flag("--sim", raw.simulated,
               "use a simulated GPU; --sim=PROFILE: h200, h200-cuda13, h200-r615, l40s-x2, tiny or a .toml file");
  app.add_option("--sim-profile", raw.profile, "h200, h200-cuda13, h200-r615, l40s-x2, tiny or a .toml file")
      ->group("");
}

// A positional argument; its name says what it is, so no type is shown.
CLI::Option* operand(CLI::Option* option) { return option->type_name(""); }

CLI::App* command(CLI::App& parent, Raw& raw, const char* group, const std::string& name, const std::string& summary) {
  static const auto formatter = [] {
    auto made = std::make_shared<CommandFormatter>();
    made->label("SUBCOMMAND", "COMMAND");
    return made;
  }();
  CLI::App* app = parent.add_subcommand(name, summary)->group(group);
  app->formatter(formatter);
  say_how(*app, raw);
  return app;
}

// A command below another: share create.
CLI::App* inner_command(CLI::App& parent, Raw& raw, const std::string& name, const std::string& summary) {
  return command(parent, raw, kCommands, name, summary);
}

void describe_run(CLI::App& app, Raw& raw) {
  RunOptions& run = raw.out.run;
  CLI::App* word_run = command(app, raw, kStart, "run", "run a program inside a share");
  say_where(*word_run, raw);
  word_run->add_option("-i,--gpu", run.gpu, "which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all, auto")
      ->type_name("GPUS");
  word_run->add_option("-m,--mem", run.memory, "memory limit on each GPU: 8GiB, 8GB, 50%")->type_name("SIZE");
  word_run
      ->add_option("--host-mem", run.host_memory,
                   "host memory that stands in for the GPU's past --mem: 8GiB (slower; without it the limit is hard)")
      ->type_name("SIZE");
  word_run->add_option("-c,--compute", run.compute, "share of each GPU's time: 50%, 0.5, 500m, 40TFLOPS")
      ->type_name("PART");
  word_run->add_option("--share", run.share, "enter this share of headgated, as it is")->type_name("NAME");
  word_run->add_option("--name", run.name, "the share's name; programs under one name draw on one account")
      ->type_name("NAME");
  word_run->add_option("--burst", run.burst, "use up to this while no other share has work there: 80%")
      ->type_name("PART");
  word_run
      ->add_option("--weight", run.weight, "part of what is left over (needs the daemon): 1 to 1000 (users: to 100)")
      ->type_name("N");
  word_run->add_option("--wait", run.wait, "wait until there is room (needs the daemon); --wait=5m: at most that long")
      ->type_name("TIME")
      ->expected(0, 1);
  word_run->add_option("--on-oom", run.on_oom, "allocations without room (needs the daemon): fail, wait (30s), wait=5m")
      ->type_name("WHAT");
  word_run
      ->add_option("--class", run.priority_class,
                   "best-effort, normal, or latency (which administrators give; needs the daemon)")
      ->type_name("CLASS");
  word_run->add_option("--ttl", run.ttl, "time to live; then no process may join the share (needs the daemon): 8h, 7d")
      ->type_name("TIME");
  word_run->add_flag("--allow-unenforced", run.allow_unenforced,
                     "start programs that the limiter cannot be loaded into, without limits");
  renamed(word_run->add_flag("--allow-unheld", run.allow_unenforced), raw, "--allow-unheld", "--allow-unenforced");
  word_run->footer("Write the command after '--': headgate run --mem 8GiB --compute 50% -- python train.py");
  word_run->prefix_command();
}

void describe_live_views(CLI::App& app, Raw& raw) {
  CLI::App* top = command(app, raw, kLook, "top", "watch GPUs, shares and processes live; ? shows its keys");
  say_where(*top, raw);
  top->add_flag("-1,--once", raw.out.once, "print one table, for scripts and screen readers");
  top->add_flag("--readonly", raw.out.readonly, "disable the keys that change something");
  top->add_option("--by", raw.out.by, "rows by share, gpu, user or process")->type_name("WHAT");
  CLI::App* events = command(app, raw, kLook, "events", "list what happened on the node");
  say_where(*events, raw);
  events->add_flag("-f,--follow", raw.out.follow, "go on with new events until it is ended");
  events->add_option("--since", raw.since, "only events of the last: 30s, 5m, 1h, 2d")->type_name("TIME");
  events->add_option("--share", raw.out.share, "only events of this share")->type_name("NAME");
  events->add_option("--kind", raw.out.kind, "only kinds that begin with this: memory, share.created, audit, gpu")
      ->type_name("KIND");
  for (CLI::App* live : {top, events})
    live->add_option("--interval", raw.live_interval, "time between one look and the next (1s)")->type_name("TIME");
}

// Options sent to the daemon in the API's body under `key`, which the daemon parses.
CLI::Option* order_option(CLI::App& app, Raw& raw, const char* option, const char* key, const char* type,
                          const char* summary) {
  return app
      .add_option_function<std::string>(
          option, [&raw, key](const std::string& value) { raw.out.order[key] = value; }, summary)
      ->type_name(type);
}

// --option, or --option=no to turn it off again: a share keeps the setting until it is turned off.
CLI::Option* order_flag(CLI::App& app, Raw& raw, const char* option, const char* key, const char* summary) {
  return app.add_flag(option)->description(summary)->check([&raw, key](const std::string& said) -> std::string {
    if (said != "true" && said != "yes" && said != "false" && said != "no")
      return "'" + harmless(said) + "' is neither yes nor no";
    raw.out.order[key] = said == "true" || said == "yes" ? "true" : "false";
    return {};
  });
}

void say_whether_asked(CLI::App& app, Raw& raw) {
  app.add_flag("-y,--yes", raw.out.yes, "do not ask whether promises may become void");
}

void describe_order(CLI::App& app, Raw& raw) {
  order_option(app, raw, "-m,--mem", "mem", "SIZE", "memory limit on each GPU: 8GiB, 8GB, 50%, none");
  order_option(app, raw, "--host-mem", "host_mem", "SIZE", "host memory that stands in for the GPU's past --mem");
  order_option(app, raw, "-c,--compute", "compute", "PART", "promised part of each GPU's time: 50%, 40TFLOPS, none");
  order_option(app, raw, "--burst", "burst", "PART", "use up to this while no other share wants it: 80%, none");
  order_option(app, raw, "--weight", "weight", "N",
               "part of what is left over, beside other shares: 1 to 1000 (users: to 100)");
  order_option(app, raw, "--class", "class", "CLASS", "best-effort, normal, or latency (which administrators give)");
  order_option(app, raw, "--admit", "admit", "WHEN", "now, or ask: an outside scheduler decides on each process");
  order_option(app, raw, "--on-oom", "on_oom", "WHAT", "allocations without room: fail, wait (30s), wait=5m");
  order_option(app, raw, "--ttl", "ttl", "TIME",
               "time to live; then no process may join, and the share ends with its last: 8h, 7d, none");
  order_option(app, raw, "--freeze-after", "freeze_after", "TIME",
               "move memory of idle programs to the host until their next call: 10m, none");
  order_option(app, raw, "--idle-notice", "idle_notice", "TIME",
               "event when it has used no GPU for this time: 2h, none");
  order_option(app, raw, "--user", "users", "USERS",
               "users that may join beside the owner: names or numbers, with commas; none");
  order_option(app, raw, "--group", "groups", "GROUPS", "groups whose members may join; none");
  order_flag(app, raw, "--everyone", "everyone", "all processes that reach its directory may join (containers); =no");
  order_flag(app, raw, "--overcommit", "overcommit", "allow it beyond the card's memory; it is promised nothing; =no");
  order_flag(app, raw, "--oversubscribe", "oversubscribe",
             "--mem may be more than the card: the rest is host memory, which programs see as the card's; =no");
  renamed(order_flag(app, raw, "--over-sell", "overcommit", ""), raw, "--over-sell", "--overcommit");
  say_whether_asked(app, raw);
}

CLI::App* share_inner(CLI::App& share, Raw& raw, const char* name, const char* summary) {
  CLI::App* inner = inner_command(share, raw, name, summary);
  operand(inner->add_option("NAME", raw.out.share, "the share's name"))->required();
  return inner;
}

void describe_daemon_words(CLI::App& app, Raw& raw) {
  CLI::App* share = app.add_subcommand("share", "create, change and list shares (needs the daemon)")->group(kManage);
  share->require_subcommand(1);
  CLI::App* create = share_inner(*share, raw, "create", "create a share; it stays until it is removed");
  order_option(*create, raw, "-i,--gpu", "gpu", "GPUS", "which GPUs: 0, 0,2-3, GPU-9c2f, all, auto");
  order_option(*create, raw, "--gang", "gang", "NAME", "run at the same time as your other shares of that gang");
  order_option(*create, raw, "--isolation", "isolation", "HOW",
               "hook: in turns; mps: kernels run at once; timeslice: in the driver's time slices");
  order_option(*create, raw, "--fail-policy", "fail_policy", "POLICY",
               "if it cannot be measured: open (run without limits) or closed");
  describe_order(*create, raw);
  CLI::App* change = share_inner(
      *share, raw, "set", "change a share and its running programs at once; its GPUs, gang and fail policy stay");
  describe_order(*change, raw);
  // These options cannot be changed. They are accepted here only to explain why; help and completion leave them out.
  for (const auto& [option, key] : {std::pair{"-i,--gpu", "gpu"},
                                    {"--gang", "gang"},
                                    {"--fail-policy", "fail_policy"},
                                    {"--isolation", "isolation"}})
    order_option(*change, raw, option, key, "", "")->group("");
  CLI::App* parts = inner_command(*share, raw, "rebalance", "change the promises of several shares in one step");
  operand(parts->add_option("NAME=PART", raw.out.parts, "such as alice=80% bob=20%; PART is what --compute takes"))
      ->required()
      ->expected(1, -1);
  say_whether_asked(*parts, raw);
  parts->footer("Room is looked for once all of them are changed: headgate share rebalance alice=80% bob=20%");
  CLI::App* extend = share_inner(*share, raw, "extend", "extend a share's time to live");
  operand(extend->add_option_function<std::string>(
              "TIME", [&raw](const std::string& value) { raw.out.order["time"] = value; }, "time to add: 30m, 8h, 2d"))
      ->required();
  share_inner(*share, raw, "show", "show one share");
  say_whether_again(*inner_command(*share, raw, "ls", "list the shares that you may see"), raw);
  share_inner(*share, raw, "rm", "remove an empty share");
  share_inner(*share, raw, "pause", "hold all launches of its programs until resume");
  share_inner(*share, raw, "resume", "end pause or drain");
  share_inner(*share, raw, "drain", "admit no process and grant no memory until resume");
  share_inner(*share, raw, "reclaim", "make its programs return unused pool memory, once");
  CLI::App* quota = app.add_subcommand("quota", "limit what a user or a group may have in all")->group(kManage);
  quota->require_subcommand(1);
  inner_command(*quota, raw, "ls", "list the quotas that apply to you");
  CLI::App* set = inner_command(*quota, raw, "set", "create or change a quota (administrators)");
  order_option(*set, raw, "--user", "user", "USER", "for one user");
  order_option(*set, raw, "--group", "group", "GROUP", "for a group's members together");
  order_flag(*set, raw, "--everyone", "everyone", "for each user except root, unless the user has another");
  order_option(*set, raw, "-m,--mem", "mem", "SIZE", "memory on all GPUs: 24GiB, none");
  order_option(*set, raw, "-c,--compute", "compute", "PART", "GPU time, 100% for each GPU: 50%, 200%, none");
  order_option(*set, raw, "--shares", "shares", "N", "number of shares, none");
  order_option(*set, raw, "--ttl", "ttl", "TIME", "longest time to live of each share: 8h, none");
  order_option(*set, raw, "--weight", "weight", "N", "largest weight of a share: 1 to 1000, none (users have 100)");
  order_option(*set, raw, "--class", "class", "CLASS",
               "highest class of a share: best-effort, normal, latency, none (users have normal)");
  CLI::App* gone = inner_command(*quota, raw, "rm", "remove a quota (administrators)");
  order_option(*gone, raw, "--user", "user", "USER", "of one user");
  order_option(*gone, raw, "--group", "group", "GROUP", "of a group");
  order_flag(*gone, raw, "--everyone", "everyone", "the one for everyone");
  CLI::App* gpu = app.add_subcommand("gpu", "list GPUs, set their policy and mode, release them")->group(kManage);
  gpu->require_subcommand(1);
  CLI::App* list = inner_command(*gpu, raw, "ls", "list the GPUs");
  list->add_flag_callback(
      "--drivers", [&raw] { raw.out.command = "gpu drivers"; },
      "list the drivers that dockerd has for GPU requests here, and their capabilities");
  say_where(*list, raw);
  say_whether_again(*list, raw);
  CLI::App* policy = inner_command(*gpu, raw, "policy", "set how shares that want a GPU divide it (administrators)");
  operand(policy->add_option("GPU", raw.out.share, "its number, or the beginning of its UUID"))->required();
  operand(policy->add_option_function<std::string>(
              "POLICY", [&raw](const std::string& value) { raw.out.order["policy"] = value; },
              "fair, priority, off, or default: as the configuration says"))
      ->required();
  say_whether_asked(*policy, raw);
  inner_command(*gpu, raw, "release", "make headgated close the driver for a minute, so that a GPU can be reset");
}

void say_which_gpus(CLI::App& app, Raw& raw) {
  app.add_option("-i,--gpu", raw.out.gpu, "which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all")->type_name("GPUS");
}

// Options for the holder of the settings, and for a dry run.
void say_how_it_ends(CLI::App& app, Raw& raw) {
  order_option(app, raw, "--for", "for", "TIME", "put the former values back after this time: 30m, 2h, 7d");
  order_option(app, raw, "--pid", "pid", "PID", "put them back when this process of yours ends");
  order_option(app, raw, "--confirm", "confirm", "TIME",
               "put them back after this time unless you confirm: here, or with power keep");
}

// A command below `gpu` that sets one thing, which stands in the API's body under `key`, to stay or as a lease.
CLI::App* gpu_setting(CLI::App& gpu, Raw& raw, const char* name, const char* summary, const char* value,
                      const char* key, const char* accepted) {
  CLI::App* setting = inner_command(gpu, raw, name, summary);
  operand(order_option(*setting, raw, value, key, "", accepted))->required();
  say_which_gpus(*setting, raw);
  say_how_it_ends(*setting, raw);
  return setting;
}

void describe_power(CLI::App& app, Raw& raw) {
  CLI::App* power = app.add_subcommand("power", "show and set power limits, clocks and modes of GPUs")->group(kManage);
  power->require_subcommand(1);
  CLI::App* status =
      inner_command(*power, raw, "status", "show limits, locked clocks, modes and the leases that hold them");
  say_whether_again(*status, raw);
  inner_command(*power, raw, "watch", "repeat power status until Ctrl-C or q")
      ->add_option("--interval", raw.live_interval, "time between one look and the next (1s)")
      ->type_name("TIME");
  CLI::App* set = inner_command(*power, raw, "set", "set a power limit, clocks or a mode, to stay or for a time");
  operand(set->add_option("VALUE", raw.out.parts,
                          "power limit: 300W, 80%, default; GPU clocks: 1200MHz, 210-1200MHz, none"))
      ->expected(0, -1);
  say_which_gpus(*set, raw);
  order_option(*set, raw, "--mem-clocks", "mem_clocks", "CLOCKS", "lock memory clocks: 5001MHz, 405-5001MHz, none");
  order_option(*set, raw, "--persistence", "persistence", "ON|OFF", "persistence mode: on, off");
  order_option(*set, raw, "--compute-mode", "compute_mode", "MODE", "default, exclusive, prohibited");
  order_option(*set, raw, "--budget", "budget", "WATTS", "power limits that come to this together: 500W");
  order_option(*set, raw, "--weights", "weights", "N,...", "parts of the budget, in the order of the GPUs (all 1)");
  say_how_it_ends(*set, raw);
  set->footer(
      "headgate power set 300W --gpu 0\n"
      "headgate power set 80% 1200MHz --gpu all --for 2h\n"
      "headgate power set --budget 500W --weights 2,1 --gpu 0,1 --confirm 30s");
  CLI::App* apply = inner_command(*power, raw, "apply", "apply a named profile of the configuration");
  operand(apply->add_option("PROFILE", raw.out.share, "its name; power profiles lists them"))->required();
  say_which_gpus(*apply, raw);
  say_how_it_ends(*apply, raw);
  CLI::App* reset = inner_command(*power, raw, "reset", "set what the site has at start, else the driver's defaults");
  say_which_gpus(*reset, raw);
  CLI::App& gpu = *app.get_subcommand("gpu");
  CLI::App* mode = gpu_setting(
      gpu, raw, "mode", "set which programs may have a context on a GPU, to stay or for a time", "MODE", "compute_mode",
      "default: all, by time slices; exclusive: one process, or an MPS server; prohibited: none");
  mode->footer(
      "headgate gpu mode exclusive --gpu 0 --for 2h\n"
      "headgate gpu mode default --gpu 0");
  CLI::App* slices =
      gpu_setting(gpu, raw, "timeslice", "set how long one program has a GPU before the next, to stay or for a time",
                  "LENGTH", "time_slice", "of the driver's time slices: default, short, medium, long");
  slices->footer(
      "headgate gpu timeslice long --gpu 0 --for 2h\n"
      "headgate gpu timeslice default --gpu 0");
  for (CLI::App* change : {set, apply, reset, mode, slices})
    change->add_flag("-n,--dry-run", raw.out.dry_run, "say what would change, and set nothing");
  inner_command(*power, raw, "profiles", "the named profiles");
  for (const auto& [name, summary] : {std::pair{"keep", "end a lease whose settings stay: the answer to --confirm"},
                                      {"end", "end a lease: its former values are put back"}})
    operand(inner_command(*power, raw, name, summary)
                ->add_option("LEASE", raw.out.share, "its id, as power status shows it"))
        ->required();
}

void describe_views(CLI::App& app, Raw& raw) {
  CLI::App* status =
      command(app, raw, kLook, "status", "show each GPU and each share (also: headgate without a command)");
  say_where(*status, raw);
  say_how_long(*status, raw);
  say_whether_again(*status, raw);
  CLI::App* ps = command(app, raw, kLook, "ps", "list processes and what they use");
  say_where(*ps, raw);
  say_how_long(*ps, raw);
  say_whether_again(*ps, raw);
  ps->add_option("--user", raw.out.user, "only this user's processes: a name or a number")->type_name("USER");
  ps->add_option("-i,--gpu", raw.out.gpu, "only on these GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0")->type_name("GPUS");
  CLI::App* free = command(app, raw, kLook, "free", "show what is left on each GPU, and where a share would fit");
  say_where(*free, raw);
  say_whether_again(*free, raw);
  free->add_option("--fit", raw.out.fit, "memory and compute that must fit: 10GiB,30%")->type_name("SIZE,PART");
  CLI::App* why = command(app, raw, kLook, "why", "explain refusals and waits of a share or a process");
  say_where(*why, raw);
  operand(why->add_option("SHARE|PID", raw.out.share, "a share's name or a process's number; all shares without one"));
  CLI::App* doctor = command(app, raw, kStart, "doctor", "check what headgate needs, and how to repair it");
  say_where(*doctor, raw);
  doctor->add_option("--symbols", raw.symbols, "compare a driver library's functions with the table headgate knows")
      ->type_name("LIBRARY...")
      ->expected(1, -1);
}

void describe_containers(CLI::App& app, Raw& raw) {
  CLI::App* limiter = app.add_subcommand("limiter", "put the limiter into containers and images")->group(kContainers);
  limiter->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"install", "put its libraries into a directory, with an ld.so.preload that loads it into each program"},
           {"remove", "remove both"}}) {
    CLI::App* inner = inner_command(*limiter, raw, name, summary);
    LimiterPlace& place = raw.out.limiter;
    operand(inner->add_option("DIR", place.directory, "directory of its libraries; created if absent"))->required();
    inner->add_option("--at", place.at, "where containers see DIR (at the same path)")->type_name("PATH");
    inner->add_option("--root", place.root, "an image's root: DIR lies in it, and its /etc/ld.so.preload is changed")
        ->type_name("ROOT");
    inner->add_flag("--whole-host", place.whole_host, "with --root /: every program of this machine");
  }
  CLI::App* cdi = app.add_subcommand("cdi", "list, check and generate CDI files")->group(kContainers);
  cdi->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"list", "list the devices that engines can use, and why others cannot be"},
           {"validate", "report what engines would refuse in CDI files, and the lowest version that they need"}})
    operand(inner_command(*cdi, raw, name, summary)
                ->add_option("PATH", raw.out.paths,
                             "files, or directories of them; /etc/cdi and /var/run/cdi without one"));
  inner_command(*cdi, raw, "generate", "print a CDI file of this node's GPUs, without NVIDIA's tools");
  CLI::App* runtime =
      app.add_subcommand("runtime", "add headgate-oci to container engines as a runtime")->group(kContainers);
  runtime->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"configure", "add it to an engine's settings: show the change, ask, keep the former file"},
           {"unconfigure", "remove it from an engine's settings"}}) {
    CLI::App* inner = inner_command(*runtime, raw, name, summary);
    EngineChoice& engine = raw.out.engine;
    inner->add_flag("--docker", engine.docker, "/etc/docker/daemon.json; dockerd has to be restarted");
    inner->add_flag("--podman", engine.podman, "a file in /etc/containers/containers.conf.d");
    inner->add_flag("--containerd", engine.containerd, "show the lines for its config.toml");
    inner->add_flag("--crio", engine.crio, "show the lines for its crio.conf.d");
    inner->add_option("--file", engine.file, "another file than the usual one")->type_name("FILE");
    inner->add_flag("-y,--yes", engine.yes, "do not ask");
  }
  for (const char* engine : {"docker", "podman"}) {
    CLI::App* run = command(app, raw, kContainers, engine,
                            std::string("run a container in a share: ") + engine + " run --share NAME ...");
    run->prefix_command();
    run->footer(std::string("Its own: run --share NAME, or run --gpus COUNT of GPUs that are free; all else is ") +
                engine + "'s");
  }
}

void describe_plumbing(CLI::App& app, Raw& raw) {
  command(app, raw, kPlumbing, "metrics", "print headgated's metrics for Prometheus");
  CLI::App* api = app.add_subcommand("api", "describe headgated's HTTP API")->group(kPlumbing);
  api->require_subcommand(1);
  inner_command(*api, raw, "schema", "print the OpenAPI document");
  CLI::App* sim = app.add_subcommand("sim", "inspect and disturb the simulated node")->group(kPlumbing);
  sim->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"list", "list profiles and the nodes that exist"},
           {"truth", "show what really happened on the node: time held, memory"},
           {"reset", "forget totals and ended processes"},
           {"path", "print the node's directory"}}) {
    CLI::App* inner = inner_command(*sim, raw, name, summary);
    say_where(*inner, raw);
  }
  CLI::App* fault = inner_command(*sim, raw, "fault", "make the node's driver and NVML fail, wait or lose a GPU");
  say_where(*fault, raw);
  operand(
      fault->add_option("RULES", raw.out.rules,
                        "cuMemAlloc_v2:fail=2:after=3,nvml*:delay_us=100,device0:lost ...; 'clear' ends all faults"))
      ->required();
  CLI::App* config = app.add_subcommand("config", "check or show the configuration")->group(kPlumbing);
  config->require_subcommand(1);
  inner_command(*config, raw, "check", "read the configuration and report mistakes");
  inner_command(*config, raw, "show", "show every key with its value")
      ->add_flag("--origin", raw.out.origin, "show where each value comes from");
  CLI::App* completion = command(app, raw, kPlumbing, "completion", "print a completion script for a shell");
  operand(completion->add_option("SHELL", raw.out.shell, "bash, zsh or fish"))->required();
  CLI::App* bundle = command(app, raw, kPlumbing, "support-bundle", "write an archive for a bug report, without names");
  say_where(*bundle, raw);
  operand(bundle->add_option("FILE", raw.out.file, "headgate-support-DATE-TIME.tar.gz without one; never replaced"));
  bundle->add_flag("--no-redact", raw.out.no_redact, "keep names of users, hosts, commands, containers and paths");
  command(app, raw, kPlumbing, "version", "print headgate's version");
}

// These commands parse their own arguments.
void describe_proofs(CLI::App& app, Raw& raw) {
  CLI::App* demo =
      command(app, raw, kStart, "demo", "show headgated and six tenants on a simulated GPU, live, in about 17 s");
  demo->allow_extras();
  demo->footer(
      "Its own:\n"
      "  --seconds=N                 length: 12 to 120 (17)\n"
      "  --once                      print line by line, and one table at the end");
  CLI::App* bench = command(app, raw, kStart, "bench", "prove the limits on your own card in about 20 s");
  say_where(*bench, raw);
  bench->allow_extras();
  CLI::App* zeusd =
      command(app, raw, kPlumbing, "zeusd", "serve zeusd's API: GPU power, clocks and energy for users without root");
  zeusd->prefix_command();
  zeusd->footer("Its own: serve, token issue; headgate zeusd serve --help lists their options");
}

}  // namespace

std::unique_ptr<CLI::App> describe_commands(Raw& raw) {
  auto app = std::make_unique<CLI::App>("headgate meters NVIDIA GPUs: shares of memory and compute.", "headgate");
  app->require_subcommand(0, 1);
  app->set_help_flag("-h,--help", "print this help");
  app->get_formatter()->label("SUBCOMMAND", "COMMAND");
  app->footer(
      "Examples:\n"
      "  headgate demo                                              six tenants on a simulated GPU\n"
      "  headgate run --mem 8GiB --compute 50% -- python train.py   a program in its own share\n"
      "  headgate why                                               what was refused or had to wait, and what helps");
  // With headgate bare, the status view's options are taken too.
  say_how(*app, raw);
  say_where(*app, raw);
  say_how_long(*app, raw);
  say_whether_again(*app, raw);
  describe_run(*app, raw);
  describe_views(*app, raw);
  describe_live_views(*app, raw);
  describe_daemon_words(*app, raw);
  describe_power(*app, raw);
  describe_containers(*app, raw);
  describe_proofs(*app, raw);
  describe_plumbing(*app, raw);
  app->add_flag_callback("--version", [&raw] { raw.out.command = "version"; }, "print the version");
  return app;
}

}  // namespace headgate::cli
