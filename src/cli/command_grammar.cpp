#include "cli/command_grammar.hpp"

#include <CLI/CLI.hpp>

namespace headgate::cli {
namespace {

// Understands an option under its name of the last release: it stands in no help, and its use is told (docs/compat.md).
void renamed(CLI::Option* option, Raw& raw, const char* before, const char* now) {
  raw.renamed.push_back({option->group(""), before, now});
}

// Headings in --help.
constexpr const char* kOutput = "Output";
constexpr const char* kWords = "Words";

void say_how(CLI::App& app, Raw& raw) {
  app.add_option("-o,--output", raw.output,
                 "table, json; of words that list things also wide, jsonl (a line each), csv")
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
  app.add_option("--interval", raw.interval, "time between the two looks that rates come from (100ms)")
      ->type_name("TIME");
}

void say_whether_again(CLI::App& app, Raw& raw) {
  app.add_option("--watch", raw.watch, "again and again, until Ctrl-C or q; --watch=5s: so often (2s)")
      ->type_name("TIME")
      ->expected(0, 1);
}

void say_where(CLI::App& app, Raw& raw) {
  // The profile is only taken as --sim=PROFILE (see split_profiles): a word after --sim belongs to the command line.
  app.add_flag("--sim", raw.simulated,
               "a simulated GPU; --sim=PROFILE: h200, h200-cuda13, l40s-x2, tiny or a .toml file");
  app.add_option("--sim-profile", raw.profile, "h200, h200-cuda13, l40s-x2, tiny or a .toml file")->group("");
}

// A word that stands by itself: what it is called says what it is, so no type stands beside that.
CLI::Option* operand(CLI::Option* option) { return option->type_name(""); }

CLI::App* word(CLI::App& parent, Raw& raw, const std::string& name, const std::string& summary) {
  CLI::App* app = parent.add_subcommand(name, summary)->group(kWords);
  say_how(*app, raw);
  return app;
}

void describe_run(CLI::App& app, Raw& raw) {
  RunOptions& run = raw.out.run;
  CLI::App* word_run = word(app, raw, "run", "run a program inside a share");
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
  word_run->add_option("--burst", run.burst, "use so much while no other share has work there: 80%")->type_name("PART");
  word_run
      ->add_option("--weight", run.weight, "part of what is left over (needs the daemon): 1 to 1000 (users: to 100)")
      ->type_name("N");
  word_run
      ->add_option("--wait", run.wait,
                   "stands in line until there is room (needs the daemon); --wait=5m: so long at most")
      ->type_name("TIME")
      ->expected(0, 1);
  word_run->add_option("--on-oom", run.on_oom, "allocations without room (needs the daemon): fail, wait (30s), wait=5m")
      ->type_name("WHAT");
  word_run
      ->add_option("--class", run.priority_class,
                   "best-effort, normal, or latency (which administrators give; needs the daemon)")
      ->type_name("CLASS");
  word_run->add_option("--ttl", run.ttl, "after it no more programs enter the share (needs the daemon): 8h, 7d")
      ->type_name("TIME");
  word_run->add_flag("--allow-unenforced", run.allow_unenforced,
                     "start programs that the limiter cannot be loaded into, without limits");
  renamed(word_run->add_flag("--allow-unheld", run.allow_unenforced), raw, "--allow-unheld", "--allow-unenforced");
  word_run->footer("Write the command after '--': headgate run --mem 8GiB --compute 50% -- python train.py");
  word_run->prefix_command();
}

void describe_live_views(CLI::App& app, Raw& raw) {
  CLI::App* top = word(app, raw, "top", "the live view: GPUs, shares, processes; ? shows its keys");
  say_where(*top, raw);
  top->add_flag("-1,--once", raw.out.once, "one table, for scripts and screen readers");
  top->add_flag("--readonly", raw.out.readonly, "no key changes anything");
  top->add_option("--by", raw.out.by, "rows by share, gpu, user or process")->type_name("WHAT");
  CLI::App* events = word(app, raw, "events", "what happened on the node, in plain words");
  say_where(*events, raw);
  events->add_flag("-f,--follow", raw.out.follow, "and what happens next, until it is ended");
  events->add_option("--since", raw.since, "only what is not longer ago: 30s, 5m, 1h, 2d")->type_name("TIME");
  events->add_option("--share", raw.out.share, "only what concerns this share")->type_name("NAME");
  events->add_option("--kind", raw.out.kind, "only kinds that begin so: memory, share.created, audit, gpu")
      ->type_name("KIND");
  for (CLI::App* live : {top, events})
    live->add_option("--interval", raw.live_interval, "time between one look and the next (1s)")->type_name("TIME");
}

// Options that stand in the API's body under `key`, for the daemon to read.
CLI::Option* order_option(CLI::App& app, Raw& raw, const char* option, const char* key, const char* type,
                          const char* summary) {
  return app
      .add_option_function<std::string>(
          option, [&raw, key](const std::string& value) { raw.out.order[key] = value; }, summary)
      ->type_name(type);
}

// --option, or --option=no, which says the opposite: a share has it until somebody takes it back.
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
  order_option(app, raw, "--burst", "burst", "PART", "at most so much, while nobody else wants it: 80%, none");
  order_option(app, raw, "--weight", "weight", "N",
               "part of what is left over, beside other shares: 1 to 1000 (users: to 100)");
  order_option(app, raw, "--class", "class", "CLASS", "best-effort, normal, or latency (which administrators give)");
  order_option(app, raw, "--admit", "admit", "WHO", "now, or ask: an outside scheduler decides on each process");
  order_option(app, raw, "--on-oom", "on_oom", "WHAT", "allocations without room: fail, wait (30s), wait=5m");
  order_option(app, raw, "--ttl", "ttl", "TIME",
               "after it nobody enters, and it ends with its last program: 8h, 7d, none");
  order_option(app, raw, "--freeze-after", "freeze_after", "TIME",
               "idle programs' memory goes to the host until their next call: 10m, none");
  order_option(app, raw, "--idle-notice", "idle_notice", "TIME", "an event when it used no GPU for so long: 2h, none");
  order_option(app, raw, "--user", "users", "USERS", "who else may enter: names or numbers, with commas; none");
  order_option(app, raw, "--group", "groups", "GROUPS", "whose members may enter; none");
  order_flag(app, raw, "--everyone", "everyone", "whoever reaches its directory may enter (containers); =no");
  order_flag(app, raw, "--overcommit", "overcommit", "may be committed beyond the card; promised nothing; =no");
  order_flag(app, raw, "--oversubscribe", "oversubscribe",
             "--mem may be more than the card: the rest is host memory, which programs see as the card's; =no");
  renamed(order_flag(app, raw, "--over-sell", "overcommit", ""), raw, "--over-sell", "--overcommit");
  say_whether_asked(app, raw);
}

CLI::App* share_inner(CLI::App& share, Raw& raw, const char* name, const char* summary) {
  CLI::App* inner = word(share, raw, name, summary);
  operand(inner->add_option("NAME", raw.out.share, "the share's name"))->required();
  return inner;
}

void describe_daemon_words(CLI::App& app, Raw& raw) {
  CLI::App* share = app.add_subcommand("share", "shares that headgated keeps")->group(kWords);
  share->require_subcommand(1);
  CLI::App* create = share_inner(*share, raw, "create", "makes a share; it stays until it is removed");
  order_option(*create, raw, "-i,--gpu", "gpu", "GPUS", "which GPUs: 0, 0,2-3, GPU-9c2f, all, auto");
  order_option(*create, raw, "--gang", "gang", "NAME", "has its turns together with your other shares of that gang");
  order_option(*create, raw, "--isolation", "isolation", "HOW",
               "hook: in turns; mps: kernels run at once; timeslice: in the driver's time slices");
  order_option(*create, raw, "--fail-policy", "fail_policy", "POLICY", "where it cannot be measured: open or closed");
  describe_order(*create, raw);
  CLI::App* change = share_inner(
      *share, raw, "set", "changes a share; running programs feel it at once. Its GPUs, gang and fail policy stay");
  describe_order(*change, raw);
  // Whoever tries is told why, and not that there is no such option; no help or completion offers them.
  for (const auto& [option, key] : {std::pair{"-i,--gpu", "gpu"},
                                    {"--gang", "gang"},
                                    {"--fail-policy", "fail_policy"},
                                    {"--isolation", "isolation"}})
    order_option(*change, raw, option, key, "", "")->group("");
  CLI::App* parts = word(*share, raw, "rebalance", "change what several shares are promised in one step, or swap it");
  operand(parts->add_option("NAME=PART", raw.out.parts, "such as alice=80% bob=20%; PART is what --compute takes"))
      ->required()
      ->expected(1, -1);
  say_whether_asked(*parts, raw);
  parts->footer("Room is looked for once all of them are changed: headgate share rebalance alice=80% bob=20%");
  CLI::App* extend = share_inner(*share, raw, "extend", "puts off the end of a share that has one");
  operand(
      extend->add_option_function<std::string>(
          "TIME", [&raw](const std::string& value) { raw.out.order["time"] = value; }, "what comes to it: 30m, 8h, 2d"))
      ->required();
  share_inner(*share, raw, "show", "one share");
  say_whether_again(*word(*share, raw, "ls", "the shares that you may see"), raw);
  share_inner(*share, raw, "rm", "removes a share that is empty");
  share_inner(*share, raw, "pause", "no launch of its programs passes until it is resumed");
  share_inner(*share, raw, "resume", "its launches pass again");
  share_inner(*share, raw, "drain", "no process enters and no memory is given until it is resumed");
  share_inner(*share, raw, "reclaim", "its programs give back what their pools hold unused, once");
  CLI::App* quota = app.add_subcommand("quota", "what users and groups may have together")->group(kWords);
  quota->require_subcommand(1);
  word(*quota, raw, "ls", "the quotas that concern you");
  CLI::App* set = word(*quota, raw, "set", "changes what is named of one, or makes it (administrators)");
  order_option(*set, raw, "--user", "user", "USER", "for one user");
  order_option(*set, raw, "--group", "group", "GROUP", "for a group's members together");
  order_flag(*set, raw, "--everyone", "everyone", "for each user but root, where his own says nothing");
  order_option(*set, raw, "-m,--mem", "mem", "SIZE", "memory over all GPUs: 24GiB, none");
  order_option(*set, raw, "-c,--compute", "compute", "PART", "of GPUs' time, 100% for each: 50%, 200%, none");
  order_option(*set, raw, "--shares", "shares", "N", "how many, none");
  order_option(*set, raw, "--ttl", "ttl", "TIME", "each must end by itself: 8h, none");
  order_option(*set, raw, "--weight", "weight", "N", "largest weight of each: 1 to 1000, none (users have 100)");
  order_option(*set, raw, "--class", "class", "CLASS",
               "highest class of each: best-effort, normal, latency, none (users have normal)");
  CLI::App* gone = word(*quota, raw, "rm", "removes one (administrators)");
  order_option(*gone, raw, "--user", "user", "USER", "of one user");
  order_option(*gone, raw, "--group", "group", "GROUP", "of a group");
  order_flag(*gone, raw, "--everyone", "everyone", "the one for everyone");
  CLI::App* gpu = app.add_subcommand("gpu", "the node's GPUs")->group(kWords);
  gpu->require_subcommand(1);
  CLI::App* list = word(*gpu, raw, "ls", "a line for each GPU");
  list->add_flag_callback(
      "--drivers", [&raw] { raw.out.command = "gpu drivers"; },
      "what dockerd takes GPU requests by on this node, and the capabilities of each");
  say_where(*list, raw);
  say_whether_again(*list, raw);
  CLI::App* policy = word(*gpu, raw, "policy", "who has a GPU when several shares want it (administrators)");
  operand(policy->add_option("GPU", raw.out.share, "its number, or the beginning of its UUID"))->required();
  operand(policy->add_option_function<std::string>(
              "POLICY", [&raw](const std::string& value) { raw.out.order["policy"] = value; },
              "fair, priority, off, or default: as the configuration says"))
      ->required();
  say_whether_asked(*policy, raw);
  word(*gpu, raw, "release", "headgated closes the driver for a minute, so that a GPU can be reset");
  word(app, raw, "metrics", "headgated's figures, as Prometheus reads them");
  CLI::App* api = app.add_subcommand("api", "headgated's HTTP interface")->group(kWords);
  api->require_subcommand(1);
  word(*api, raw, "schema", "the OpenAPI document of all that can be asked");
}

void say_which_gpus(CLI::App& app, Raw& raw) {
  app.add_option("-i,--gpu", raw.out.gpu, "which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all")->type_name("GPUS");
}

// Who holds the settings, and whether they are only tried.
void say_how_it_ends(CLI::App& app, Raw& raw) {
  order_option(app, raw, "--for", "for", "TIME", "put the former values back after this time: 30m, 2h, 7d");
  order_option(app, raw, "--pid", "pid", "PID", "put them back when this process of yours ends");
  order_option(app, raw, "--confirm", "confirm", "TIME",
               "put them back after this time unless you confirm: here, or with power keep");
}

void describe_power(CLI::App& app, Raw& raw) {
  CLI::App* power = app.add_subcommand("power", "power limits, clocks and modes of the GPUs")->group(kWords);
  power->require_subcommand(1);
  CLI::App* status = word(*power, raw, "status", "limits, locked clocks and modes, and which lease holds them");
  say_whether_again(*status, raw);
  word(*power, raw, "watch", "the same again and again, until Ctrl-C or q")
      ->add_option("--interval", raw.live_interval, "time between one look and the next (1s)")
      ->type_name("TIME");
  CLI::App* set = word(*power, raw, "set", "set a power limit, clocks or a mode, to stay or for a time");
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
  CLI::App* apply = word(*power, raw, "apply", "apply a named profile of the configuration");
  operand(apply->add_option("PROFILE", raw.out.share, "its name; power profiles lists them"))->required();
  say_which_gpus(*apply, raw);
  say_how_it_ends(*apply, raw);
  CLI::App* reset = word(*power, raw, "reset", "set what the site has at start, else the driver's defaults");
  say_which_gpus(*reset, raw);
  CLI::App* mode = word(*app.get_subcommand("gpu"), raw, "mode",
                        "which programs may have a context on a GPU, to stay or for a time");
  operand(mode->add_option_function<std::string>(
              "MODE", [&raw](const std::string& value) { raw.out.order["compute_mode"] = value; },
              "default: all, by time slices; exclusive: one process, or an MPS server; prohibited: none"))
      ->required();
  say_which_gpus(*mode, raw);
  say_how_it_ends(*mode, raw);
  mode->footer(
      "headgate gpu mode exclusive --gpu 0 --for 2h\n"
      "headgate gpu mode default --gpu 0");
  CLI::App* slices = word(*app.get_subcommand("gpu"), raw, "timeslice",
                          "how long one program has a GPU before the next, to stay or for a time");
  operand(slices->add_option_function<std::string>(
              "LENGTH", [&raw](const std::string& value) { raw.out.order["time_slice"] = value; },
              "of the driver's time slices: default, short, medium, long"))
      ->required();
  say_which_gpus(*slices, raw);
  say_how_it_ends(*slices, raw);
  slices->footer(
      "headgate gpu timeslice long --gpu 0 --for 2h\n"
      "headgate gpu timeslice default --gpu 0");
  for (CLI::App* change : {set, apply, reset, mode, slices})
    change->add_flag("-n,--dry-run", raw.out.dry_run, "say what would change, and set nothing");
  word(*power, raw, "profiles", "the named profiles");
  for (const auto& [name, summary] : {std::pair{"keep", "end a lease whose settings stay: the answer to --confirm"},
                                      {"end", "end a lease: its former values are put back"}})
    operand(word(*power, raw, name, summary)->add_option("LEASE", raw.out.share, "its id, as power status shows it"))
        ->required();
}

void describe_views(CLI::App& app, Raw& raw) {
  CLI::App* status = word(app, raw, "status", "one line per GPU and one per share (also: headgate without a word)");
  say_where(*status, raw);
  say_how_long(*status, raw);
  say_whether_again(*status, raw);
  CLI::App* ps = word(app, raw, "ps", "which processes use what");
  say_where(*ps, raw);
  say_how_long(*ps, raw);
  say_whether_again(*ps, raw);
  ps->add_option("--user", raw.out.user, "only those of this user: a name or a number")->type_name("USER");
  ps->add_option("-i,--gpu", raw.out.gpu, "only on these GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0")->type_name("GPUS");
  CLI::App* free = word(app, raw, "free", "what is left on each GPU, and where something would fit");
  say_where(*free, raw);
  say_whether_again(*free, raw);
  free->add_option("--fit", raw.out.fit, "memory and compute that must fit: 10GiB,30%")->type_name("SIZE,PART");
  CLI::App* why = word(app, raw, "why", "explains a share's or a process's last refusals and waits");
  say_where(*why, raw);
  operand(why->add_option("SHARE|PID", raw.out.share, "a share's name or a process's number; all shares without one"));
  CLI::App* doctor = word(app, raw, "doctor", "checks what headgate needs, and says how to repair it");
  say_where(*doctor, raw);
  doctor->add_option("--symbols", raw.symbols, "compares a driver library's functions with the table headgate knows")
      ->type_name("LIBRARY...")
      ->expected(1, -1);
}

void describe_plumbing(CLI::App& app, Raw& raw) {
  CLI::App* sim = app.add_subcommand("sim", "the simulated node")->group(kWords);
  sim->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"list", "profiles, and the nodes that exist"},
           {"truth", "what really happened on the node: time held, memory"},
           {"reset", "forgets totals and the dead"},
           {"path", "the node's directory"}}) {
    CLI::App* inner = word(*sim, raw, name, summary);
    say_where(*inner, raw);
  }
  CLI::App* fault = word(*sim, raw, "fault", "makes the node's driver and NVML fail, wait or lose a GPU");
  say_where(*fault, raw);
  operand(
      fault->add_option("RULES", raw.out.rules,
                        "cuMemAlloc_v2:fail=2:after=3,nvml*:delay_us=100,device0:lost ...; 'clear' ends all faults"))
      ->required();
  CLI::App* config = app.add_subcommand("config", "the configuration")->group(kWords);
  config->require_subcommand(1);
  word(*config, raw, "check", "reads the configuration and names what is wrong in it");
  word(*config, raw, "show", "every key with its value")
      ->add_flag("--origin", raw.out.origin, "where each value comes from");
  CLI::App* completion = word(app, raw, "completion", "prints a completion script for a shell");
  operand(completion->add_option("SHELL", raw.out.shell, "bash, zsh or fish"))->required();
  CLI::App* dashboards = app.add_subcommand("dashboards", "the Grafana board and the Prometheus rules")->group(kWords);
  dashboards->require_subcommand(1);
  CLI::App* exported = word(*dashboards, raw, "export", "writes them into a directory");
  operand(exported->add_option("DIR", raw.out.file, "made where it is not there"))->required();
  exported->add_flag("--force", raw.out.force, "replaces what is there under their names");
  CLI::App* limiter = app.add_subcommand("limiter", "the limiter in containers and images")->group(kWords);
  limiter->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"install", "puts its libraries into a directory, and an ld.so.preload that loads it into every program"},
           {"remove", "takes both away again"}}) {
    CLI::App* inner = word(*limiter, raw, name, summary);
    LimiterPlace& place = raw.out.limiter;
    operand(inner->add_option("DIR", place.directory, "where its libraries lie; made where it is not there"))
        ->required();
    inner->add_option("--at", place.at, "where containers see DIR (at the same path)")->type_name("PATH");
    inner->add_option("--root", place.root, "an image's root: DIR lies in it, and its /etc/ld.so.preload is changed")
        ->type_name("ROOT");
    inner->add_flag("--whole-host", place.whole_host, "with --root /: every program of this machine");
  }
  CLI::App* cdi = app.add_subcommand("cdi", "the files by which container engines know devices")->group(kWords);
  cdi->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"list", "lists the devices that engines have, and why they have others not"},
           {"validate", "names what engines would not take in CDI files, and the lowest version that does"}})
    operand(word(*cdi, raw, name, summary)
                ->add_option("PATH", raw.out.paths,
                             "files, or directories of them; /etc/cdi and /var/run/cdi without one"));
  word(*cdi, raw, "generate", "prints a CDI file of this node's GPUs, without NVIDIA's tools");
  CLI::App* runtime = app.add_subcommand("runtime", "headgate-oci as a runtime of container engines")->group(kWords);
  runtime->require_subcommand(1);
  for (const auto& [name, summary] : std::initializer_list<std::pair<const char*, const char*>>{
           {"configure", "adds it to an engine's settings: shows what changes, asks, and keeps the former file"},
           {"unconfigure", "removes it from them"}}) {
    CLI::App* inner = word(*runtime, raw, name, summary);
    EngineChoice& engine = raw.out.engine;
    inner->add_flag("--docker", engine.docker, "/etc/docker/daemon.json; dockerd has to be restarted");
    inner->add_flag("--podman", engine.podman, "a file in /etc/containers/containers.conf.d");
    inner->add_flag("--containerd", engine.containerd, "shows the lines for its config.toml");
    inner->add_flag("--crio", engine.crio, "shows the lines for its crio.conf.d");
    inner->add_option("--file", engine.file, "another file than the usual one")->type_name("FILE");
    inner->add_flag("-y,--yes", engine.yes, "without asking");
  }
  for (const char* engine : {"docker", "podman"}) {
    CLI::App* run = word(app, raw, engine, std::string("a container in a share: ") + engine + " run --share NAME ...");
    run->prefix_command();
    run->footer(std::string("Its own: run --share NAME, or run --gpus COUNT of GPUs that are free; all else is ") +
                engine + "'s");
  }
  CLI::App* bundle = word(app, raw, "support-bundle", "one archive for whoever helps from afar, without names");
  say_where(*bundle, raw);
  operand(bundle->add_option("FILE", raw.out.file, "headgate-support-DATE-TIME.tar.gz without one; never replaced"));
  bundle->add_flag("--no-redact", raw.out.no_redact, "keeps names of users, hosts, commands, containers and paths");
  word(app, raw, "version", "headgate's version");
}

// Their own words are read by them.
void describe_proofs(CLI::App& app, Raw& raw) {
  CLI::App* demo = word(app, raw, "demo", "headgated and six tenants on a simulated GPU, live, in about 17 s");
  demo->allow_extras();
  demo->footer(
      "Its own:\n"
      "  --seconds=N                 how long it lasts: 12 to 120 (17)\n"
      "  --once                      tells line by line, and ends with one picture");
  CLI::App* bench = word(app, raw, "bench", "proves the limits on your own card in about 20 s");
  say_where(*bench, raw);
  bench->allow_extras();
  CLI::App* zeusd = word(app, raw, "zeusd", "the API of zeusd: GPU power, clocks and energy for users without root");
  zeusd->prefix_command();
  zeusd->footer("Its own: serve, token issue; headgate zeusd serve --help lists their options");
}

}  // namespace

std::unique_ptr<CLI::App> describe_commands(Raw& raw) {
  auto app = std::make_unique<CLI::App>("headgate meters NVIDIA GPUs: shares of memory and compute.", "headgate");
  app->require_subcommand(0, 1);
  app->set_help_flag("-h,--help", "prints this help");
  app->get_formatter()->label("SUBCOMMAND", "WORD");
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
  describe_proofs(*app, raw);
  describe_plumbing(*app, raw);
  app->add_flag_callback("--version", [&raw] { raw.out.command = "version"; }, "prints the version");
  return app;
}

}  // namespace headgate::cli
