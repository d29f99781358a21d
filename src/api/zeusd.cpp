#include "api/zeusd.hpp"

#include <algorithm>
#include <expected>
#include <map>
#include <mutex>
#include <utility>

#include "api/zeusd_wire.hpp"
#include "base/joined.hpp"
#include "base/now.hpp"
#include "power/power_feed.hpp"

namespace headgate::api {
namespace {

using http::Request;
using http::Response;
using power::ApiGroup;
using power::Command;

std::uint64_t unix_now_ms() { return unix_now_ns() / 1'000'000; }

constexpr ZeusdParameter kGpuIds{"gpu_ids", ZeusdParameter::Kind::ids, true};
constexpr ZeusdParameter kSomeGpuIds{"gpu_ids", ZeusdParameter::Kind::ids, false};
constexpr ZeusdParameter kSomeCpuIds{"cpu_ids", ZeusdParameter::Kind::ids, false};
constexpr ZeusdParameter kBlock{"block", ZeusdParameter::Kind::flag, true};

std::vector<ZeusdParameter> parameters_of(power::Operation operation) {
  switch (operation) {
    case power::Operation::set_power_limit:
      return {kGpuIds, {"power_limit_mw", ZeusdParameter::Kind::number, true}, kBlock};
    case power::Operation::set_persistence_mode:
      return {kGpuIds, {"enabled", ZeusdParameter::Kind::flag, true}, kBlock};
    case power::Operation::set_gpu_locked_clocks:
    case power::Operation::set_mem_locked_clocks:
      return {kGpuIds,
              {"min_clock_mhz", ZeusdParameter::Kind::number, true},
              {"max_clock_mhz", ZeusdParameter::Kind::number, true},
              kBlock};
    default: break;
  }
  return power::is_write(operation) ? std::vector{kGpuIds, kBlock} : std::vector{kSomeGpuIds};
}

constexpr power::Operation kOperations[] = {
    power::Operation::set_persistence_mode,        power::Operation::set_power_limit,
    power::Operation::set_gpu_locked_clocks,       power::Operation::set_mem_locked_clocks,
    power::Operation::reset_gpu_locked_clocks,     power::Operation::reset_mem_locked_clocks,
    power::Operation::reset_locked_clocks,         power::Operation::get_power,
    power::Operation::get_cumulative_energy,       power::Operation::get_power_limit,
    power::Operation::get_power_limit_constraints, power::Operation::get_persistence_mode,
};

power::Caller caller_of(const ZeusdCaller& caller) {
  power::Caller named{.text = describe(caller)};
  if (caller.peer.is_unix) named.uid = caller.peer.user.value_or(caller.peer.uid);
  return named;
}

constexpr std::string_view kBearer = "Bearer ";

}  // namespace

std::string describe(const ZeusdCaller& caller) {
  if (caller.peer.is_unix) {
    // The user name is left out, because NSS may block on a directory service.
    const std::string uid = "uid " + std::to_string(caller.peer.uid);
    return caller.user ? uid + ", token of " + *caller.user : uid;
  }
  return caller.user ? "token of " + *caller.user : "a TCP client";
}

struct Zeusd::Impl : std::enable_shared_from_this<Impl> {
  Impl(http::Loop& l, power::ControlQueues& q, power::Rapl& r, ZeusdOptions o)
      : loop(l),
        queues(q),
        rapl(r),
        options(std::move(o)),
        gpu_feed(gpu_indices(), options.gpu_period, [this](std::uint32_t gpu) { return read_gpu(gpu); }),
        cpu_feed(cpu_numbers(), options.cpu_period, [this](std::uint32_t cpu) { return read_cpu(cpu); }) {
    facts.groups = options.groups;
    facts.auth_required = options.key.has_value();
    facts.version = options.version;
    // As in zeusd: devices that no enabled group reaches are not listed.
    if (is_enabled(ApiGroup::cpu_read)) facts.cpus = rapl.packages();
    if (is_enabled(ApiGroup::gpu_read) || is_enabled(ApiGroup::gpu_control))
      for (std::uint32_t gpu = 0; gpu < queues.count(); ++gpu) facts.gpus.push_back(queues.gpu(gpu).identity());
  }

  bool is_enabled(ApiGroup group) const { return std::ranges::find(options.groups, group) != options.groups.end(); }
  std::vector<std::uint32_t> gpu_indices() const {
    std::vector<std::uint32_t> all(queues.count());
    for (std::uint32_t index = 0; index < all.size(); ++index) all[index] = index;
    return all;
  }
  std::vector<std::uint32_t> cpu_numbers() const {
    std::vector<std::uint32_t> all;
    for (const auto& package : rapl.packages()) all.push_back(package.number);
    return all;
  }

  // Called on the feeds' threads.
  Result<power::PowerDraw> read_gpu(std::uint32_t gpu) {
    return power::PowerDraw{.mw = TRY(queues.gpu(gpu).read(power::Operation::get_power)), .dram_mw = {}};
  }
  Result<power::PowerDraw> read_cpu(std::uint32_t cpu) {
    const auto energy = TRY(rapl.energy(cpu));
    const std::uint64_t now_ns = steady_now_ns();
    const auto before = std::exchange(cpu_before[cpu], {now_ns, energy});
    const std::chrono::nanoseconds elapsed(now_ns - before.at_ns);
    // After a pause without followers, the mean would cover the pause.
    if (before.at_ns == 0 || elapsed > 4 * options.cpu_period)
      return fail(ErrorCode::busy, "the first reading gives no power");
    return power::mean_power(before.energy, energy, elapsed);
  }

  // Returns the caller. Errors: the group is off, or the token is missing, wrong or for another group.
  std::expected<ZeusdCaller, Response> admit(const Request& request, ApiGroup group) const {
    if (!is_enabled(group))
      return std::unexpected(zeusd_error(404, "API group " + std::string(name_of(group)) + " is not enabled"));
    ZeusdCaller caller{.peer = request.peer, .user = {}};
    if (!options.key) return caller;
    auto claims = TRY(claims_of(request));
    if (!claims.allows(group)) {
      const std::string held = joined(claims.scopes, ", ", [](ApiGroup scope) { return name_of(scope); });
      return std::unexpected(zeusd_error(
          403, "user '" + claims.user + "' needs scope " + std::string(name_of(group)) + " and has [" + held + "]"));
    }
    caller.user = std::move(claims.user);
    return caller;
  }

  std::expected<power::TokenClaims, Response> claims_of(const Request& request) const {
    const std::string* header = http::find(request.headers, "Authorization");
    if (header == nullptr || !header->starts_with(kBearer))
      return std::unexpected(
          zeusd_unauthorised("missing token: this API needs the header Authorization: Bearer TOKEN"));
    auto claims = power::verify_token(header->substr(kBearer.size()), *options.key,
                                      static_cast<std::int64_t>(unix_now_ns() / 1'000'000'000));
    if (!claims) return std::unexpected(zeusd_unauthorised(claims.error().message));
    return std::move(*claims);
  }

  // A request that may be answered: its caller, its query, and the devices that it names.
  struct Asked {
    ZeusdCaller caller;
    ZeusdQuery query;
    std::vector<std::uint32_t> devices;
  };
  std::expected<Asked, Response> read_request(const Request& request, ApiGroup group,
                                              std::span<const ZeusdParameter> parameters) const {
    Asked asked{.caller = TRY(admit(request, group)), .query = {}, .devices = {}};
    auto query = parse_zeusd_query(request.query, parameters);
    if (!query) return std::unexpected(zeusd_error(query.error()));
    asked.query = std::move(*query);
    const bool cpus = group == ApiGroup::cpu_read;
    const auto known = cpus ? cpu_numbers() : gpu_indices();
    asked.devices = asked.query.list(cpus ? "cpu_ids" : "gpu_ids").value_or(known);
    for (const std::uint32_t device : asked.devices) {
      if (std::ranges::find(known, device) != known.end()) continue;
      const std::string number = std::to_string(device);
      return std::unexpected(zeusd_error(400, group == ApiGroup::gpu_control
                                                  ? "GPU index " + number + " does not exist."
                                                  : (cpus ? "CPU " : "GPU ") + number + " not found"));
    }
    return asked;
  }

  void command(power::Operation operation, const Request& request, const http::Reply& reply) {
    const std::uint64_t arrived_ns = steady_now_ns();
    const bool writes = power::is_write(operation);
    auto asked = read_request(request, writes ? ApiGroup::gpu_control : ApiGroup::gpu_read, parameters_of(operation));
    if (!asked) return reply(std::move(asked.error()));
    const auto& [caller, query, gpus] = *asked;
    const Command wanted{.operation = operation,
                         .enabled = query.flag("enabled"),
                         .power_limit_mw = query.number("power_limit_mw"),
                         .clocks = {query.number("min_clock_mhz"), query.number("max_clock_mhz")}};
    if (writes && options.may_write) {
      if (auto allowed = options.may_write(caller, gpus, wanted); !allowed) return reply(zeusd_error(allowed.error()));
    }
    power::ControlQueues::Request submitted{
        .gpus = gpus, .command = wanted, .caller = caller_of(caller), .arrived_ns = arrived_ns, .answer = {}};
    if (!writes) return read(caller, std::move(submitted), reply);
    const bool blocks = query.flag("block");
    if (!options.before_write) return write(std::move(submitted), blocks, reply);
    options.before_write(caller, gpus, wanted,
                         [weak = weak_from_this(), submitted, blocks, reply](const Result<void>& may) {
                           if (!may) return reply(zeusd_error(may.error()));
                           const auto held = weak.lock();
                           if (!held) return;
                           held->loop.post([weak, submitted, blocks, reply] {
                             if (const auto self = weak.lock()) self->write(submitted, blocks, reply);
                           });
                         });
  }

  void write(power::ControlQueues::Request submitted, bool blocks, const http::Reply& reply) {
    const power::Operation operation = submitted.command.operation;
    if (!blocks) {
      const auto queued = queues.submit(std::move(submitted));
      return reply(queued ? zeusd_answer(operation, {}, 0) : zeusd_error(queued.error()));
    }
    submitted.answer = [reply, operation](const power::Answers& answers) {
      reply(zeusd_answer(operation, answers, unix_now_ms()));
    };
    await(std::move(submitted), reply);
  }

  void read(const ZeusdCaller& caller, power::ControlQueues::Request submitted, const http::Reply& reply) {
    const power::Operation operation = submitted.command.operation;
    power::Answers known = coarse_readings(caller, submitted.command, submitted.gpus);
    if (submitted.gpus.empty()) return reply(zeusd_answer(operation, known, unix_now_ms()));
    submitted.answer = [weak = weak_from_this(), reply, known, operation](power::Answers answers) {
      if (const auto self = weak.lock()) self->remember(operation, answers);
      answers.insert(known.begin(), known.end());
      reply(zeusd_answer(operation, answers, unix_now_ms()));
    };
    await(std::move(submitted), reply);
  }

  // For callers that do not get every reading: returns readings of the last 100 ms and removes their GPUs from `gpus`.
  power::Answers coarse_readings(const ZeusdCaller& caller, const Command& wanted, std::vector<std::uint32_t>& gpus) {
    power::Answers known;
    const bool tells_of_neighbours =
        wanted.operation == power::Operation::get_power || wanted.operation == power::Operation::get_cumulative_energy;
    if (!tells_of_neighbours || !options.reads_live) return known;
    const std::uint64_t now_ns = steady_now_ns();
    const std::lock_guard lock(recent_mutex);
    std::erase_if(gpus, [&](std::uint32_t gpu) {
      if (options.reads_live(caller, gpu)) return false;
      const auto found = recent.find({wanted.operation, gpu});
      constexpr std::uint64_t kGapNs = std::chrono::nanoseconds(kCoarseGap).count();
      if (found == recent.end() || now_ns - found->second.at_ns >= kGapNs) return false;
      known.emplace(gpu, found->second.reading);
      return true;
    });
    return known;
  }

  // Any thread.
  void remember(power::Operation operation, const power::Answers& answers) {
    if (!options.reads_live) return;
    const std::lock_guard lock(recent_mutex);
    for (const auto& [gpu, answer] : answers)
      if (answer) recent[{operation, gpu}] = {steady_now_ns(), *answer};
  }

  void await(power::ControlQueues::Request request, const http::Reply& reply) {
    const std::uint64_t ticket = ++last_ticket;
    request.answer = [weak = weak_from_this(), ticket, answer = std::move(request.answer)](power::Answers answers) {
      answer(std::move(answers));
      const auto held = weak.lock();
      if (!held) return;
      held->loop.post([weak, ticket] {
        if (const auto self = weak.lock()) self->deadlines.erase(ticket);
      });
    };
    const auto number = queues.submit(std::move(request));
    if (!number) return reply(zeusd_error(number.error()));
    deadlines.try_emplace(ticket, loop).first->second.start(options.patience, [this, request_number = *number] {
      queues.withdraw(request_number, std::to_string(options.patience.count()) + " ms");
    });
  }

  Response follow(power::PowerFeed& feed, const std::vector<std::uint32_t>& devices, bool live,
                  std::string (*text)(const power::PowerSample&)) {
    auto stream = std::make_shared<http::EventStream>();
    const std::uint64_t id =
        feed.subscribe(devices, live ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(kCoarseGap),
                       [weak = std::weak_ptr(stream)] {
                         if (const auto open = weak.lock()) open->wake();
                       });
    stream->feed_from([&feed, id, text] {
      std::vector<http::Event> events;
      for (const power::PowerSample& sample : feed.take(id)) events.push_back({"", text(sample), ""});
      return events;
    });
    stream->on_close([self = shared_from_this(), &feed, id] { feed.unsubscribe(id); });
    Response response;
    response.stream = std::move(stream);
    return response;
  }

  Response stream_gpus(const Request& request) {
    auto asked = read_request(request, ApiGroup::gpu_read, std::span(&kSomeGpuIds, 1));
    if (!asked) return std::move(asked.error());
    const bool live = !options.reads_live || std::ranges::all_of(asked->devices, [&](std::uint32_t gpu) {
      return options.reads_live(asked->caller, gpu);
    });
    return follow(gpu_feed, asked->devices, live, zeusd_gpu_event);
  }

  bool reads_cpus_live(const ZeusdCaller& caller) const {
    return !options.reads_live || options.reads_live(caller, std::nullopt);
  }

  Response stream_cpus(const Request& request) {
    auto asked = read_request(request, ApiGroup::cpu_read, std::span(&kSomeCpuIds, 1));
    if (!asked) return std::move(asked.error());
    return follow(cpu_feed, asked->devices, reads_cpus_live(asked->caller), zeusd_cpu_event);
  }

  Response cpu_energy(const Request& request) {
    const ZeusdParameter parameters[] = {
        kSomeCpuIds, {"cpu", ZeusdParameter::Kind::flag, true}, {"dram", ZeusdParameter::Kind::flag, true}};
    auto asked = read_request(request, ApiGroup::cpu_read, parameters);
    if (!asked) return std::move(asked.error());
    const auto readings = read_cpus(asked->devices, reads_cpus_live(asked->caller));
    if (!readings) return zeusd_error(readings.error());
    return zeusd_cpu_energy(*readings, asked->query.flag("cpu"), asked->query.flag("dram"));
  }

  // `live`: reads the counters; otherwise uses readings of the last 100 ms.
  Result<std::vector<CpuReading>> read_cpus(const std::vector<std::uint32_t>& cpus, bool live) {
    std::vector<CpuReading> readings;
    for (const std::uint32_t cpu : cpus) {
      CpuAt& last = cpu_last[cpu];
      const std::uint64_t now_ns = steady_now_ns();
      constexpr std::uint64_t kGapNs = std::chrono::nanoseconds(kCoarseGap).count();
      if (live || last.at_ns == 0 || now_ns - last.at_ns >= kGapNs) last = {now_ns, TRY(rapl.energy(cpu))};
      readings.push_back({cpu, last.energy});
    }
    return readings;
  }

  // Waits one sampling window and replies with the mean over the time that actually passed.
  void cpu_power(const Request& request, const http::Reply& reply) {
    auto asked = read_request(request, ApiGroup::cpu_read, std::span(&kSomeCpuIds, 1));
    if (!asked) return reply(std::move(asked.error()));
    const auto& cpus = asked->devices;
    const auto window = reads_cpus_live(asked->caller)
                            ? options.cpu_period
                            : std::max<std::chrono::nanoseconds>(options.cpu_period, kCoarseGap);
    auto before = read_cpus(cpus, true);
    if (!before) return reply(zeusd_error(before.error()));
    const std::uint64_t ticket = ++last_ticket;
    const auto finish = [this, ticket, reply, cpus, began_ns = steady_now_ns(), first = std::move(*before)] {
      const auto after = read_cpus(cpus, true);
      const std::chrono::nanoseconds elapsed(steady_now_ns() - began_ns);
      std::vector<power::PowerSample> samples;
      for (std::size_t i = 0; after && i < first.size(); ++i)
        samples.push_back({.unix_ms = 0,
                           .device = first[i].cpu,
                           .draw = power::mean_power(first[i].energy, (*after)[i].energy, elapsed)});
      reply(after ? zeusd_cpu_power(samples, unix_now_ms()) : zeusd_error(after.error()));
      loop.post([weak = weak_from_this(), ticket] {
        if (const auto self = weak.lock()) self->deadlines.erase(ticket);
      });
    };
    deadlines.try_emplace(ticket, loop).first->second.start(window, finish);
  }

  Response whoami(const Request& request) const {
    if (!options.key) return zeusd_error(404, "authentication is off");
    auto claims = claims_of(request);
    return claims ? zeusd_identity(*claims) : std::move(claims.error());
  }

  Response nothing_here(const Request& request) const {
    if (options.key)
      if (auto claims = claims_of(request); !claims) return std::move(claims.error());
    Response response;
    response.status = 404;
    response.content_type = "text/plain; charset=utf-8";
    return response;
  }

  struct CpuAt {
    std::uint64_t at_ns = 0;
    power::CpuEnergy energy{};
  };
  struct ReadingAt {
    std::uint64_t at_ns = 0;
    power::Reading reading{};
  };

  http::Loop& loop;
  power::ControlQueues& queues;
  power::Rapl& rapl;
  const ZeusdOptions options;
  ZeusdFacts facts;
  std::map<std::uint64_t, http::Timer> deadlines;  // of waiting requests
  std::uint64_t last_ticket = 0;
  std::mutex recent_mutex;
  std::map<std::pair<power::Operation, std::uint32_t>, ReadingAt> recent;
  std::map<std::uint32_t, CpuAt> cpu_last;    // used by the loop
  std::map<std::uint32_t, CpuAt> cpu_before;  // used by the CPU feed
  power::PowerFeed gpu_feed, cpu_feed;        // last members: their threads use the others
};

Zeusd::Zeusd(http::Loop& loop, power::ControlQueues& queues, power::Rapl& rapl, ZeusdOptions options)
    : impl_(std::make_shared<Impl>(loop, queues, rapl, std::move(options))) {}

Zeusd::~Zeusd() = default;

std::size_t Zeusd::followers() const { return impl_->gpu_feed.subscribers() + impl_->cpu_feed.subscribers(); }

std::function<bool(const Request&)> Zeusd::shows_token() const {
  return [self = impl_](const Request& request) { return self->options.key && self->claims_of(request).has_value(); };
}

http::Router Zeusd::routes() {
  http::Router router;
  const auto self = impl_;
  for (const power::Operation operation : kOperations) {
    router.add_later(power::is_write(operation) ? "POST" : "GET", "/gpu/" + std::string(name_of(operation)),
                     [self, operation](const Request& request, const http::Reply& reply) {
                       self->command(operation, request, reply);
                     });
  }
  router.add("GET", "/gpu/stream_power", [self](const Request& request) { return self->stream_gpus(request); });
  router.add("GET", "/cpu/stream_power", [self](const Request& request) { return self->stream_cpus(request); });
  router.add("GET", "/cpu/get_cumulative_energy", [self](const Request& request) { return self->cpu_energy(request); });
  router.add_later("GET", "/cpu/get_power",
                   [self](const Request& request, const http::Reply& reply) { self->cpu_power(request, reply); });
  router.add("GET", "/discover", [self](const Request&) { return zeusd_discovery(self->facts); });
  router.add("GET", "/time", [](const Request&) { return zeusd_time(unix_now_ms()); });
  router.add("GET", "/auth/whoami", [self](const Request& request) { return self->whoami(request); });
  router.otherwise([self](const Request& request) { return self->nothing_here(request); });
  return router;
}

}  // namespace headgate::api
