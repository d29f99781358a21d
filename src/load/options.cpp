#include "load/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numbers>
#include <optional>

#include "base/split.hpp"
#include "base/whole_number.hpp"
#include "guest/grant/size.hpp"

namespace headgate::load {
namespace {

constexpr std::string_view kUsage =
    R"(headgate-load: gives a GPU work of a known length, and reports how its launches went (one JSON line on stdout).

  --kernels=MIX      200us | lognormal:200us,1.0,seed=7 | list:20us,200us,1ms            (200us)
  --processes=N --threads=N --streams=N    threads of each process, streams of each thread  (1)
  --sync=STYLE       full (never wait) | each | batch:N | depth:N (N launches ahead)      (full)
  --gap=TIME         the host sleeps so long after each launch or wait                    (none)
  --duration=TIME    how long to launch                                                   (1s)
  --launches=N       stop a thread after so many launches
  --blocks=N         thread blocks of each kernel; its length does not depend on them    (1)
  --work=N           each kernel does N rounds of work for each microsecond of its length, however long that takes
  --graph=N          launch graphs of N kernels
  --call=FUNCTION    plain | ex | cooperative | chain (each may overlap the kernel before it)  (plain)
  --per-thread       by the functions of per-thread default streams, on those streams
  --device=N         the driver's index                                                   (0)
  --mem=SIZE         memory each process takes before the start and keeps
  --attempt=SIZE     memory each process then asks for; a refusal is part of the report
  --grow=SIZE        with --no-launches: after each --gap asks for SIZE more, until it is refused
  --edge             asks for one byte more than is free, then for exactly what is free
  --no-launches      only take memory and stay for the duration
  --no-idle-list     leave the list of idle times out of the report
)";

Result<std::uint64_t> whole(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most) {
  const auto value = whole_number(text);
  if (value && *value >= least && *value <= most) return *value;
  return fail(ErrorCode::usage, std::string(option) + " '" + std::string(text) + "' is not accepted",
              "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<std::uint64_t> bytes(std::string_view option, std::string_view text) {
  const auto parsed = grant::parse_memory(text);
  if (parsed && parsed.value.bytes != 0) return parsed.value.bytes;
  return fail(ErrorCode::usage, std::string(option) + " '" + std::string(text) + "' is not accepted",
              std::string(grant::accepted_memory(grant::Dialect::headgate)));
}

Result<void> set_sync(Options& options, std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view style = text.substr(0, colon);
  if (colon == std::string_view::npos && (style == "full" || style == "each")) {
    options.sync = style == "full" ? SyncStyle::full : SyncStyle::each;
    return {};
  }
  if (colon != std::string_view::npos && (style == "batch" || style == "depth")) {
    options.sync = style == "batch" ? SyncStyle::batch : SyncStyle::depth;
    options.sync_launches = static_cast<unsigned>(TRY(whole("--sync", text.substr(colon + 1), 1, 1024)));
    return {};
  }
  return fail(ErrorCode::usage, "--sync '" + std::string(text) + "' is not accepted",
              "full, each, batch:N or depth:N, N from 1 to 1024");
}

Result<void> set_call(Options& options, std::string_view text) {
  const auto* const found = std::ranges::find(kLaunchCalls, text);
  if (found == std::end(kLaunchCalls))
    return fail(ErrorCode::usage, "--call '" + std::string(text) + "' is not accepted",
                "plain, ex, cooperative or chain");
  options.call = static_cast<LaunchCall>(found - std::begin(kLaunchCalls));
  return {};
}

Result<void> set_value(Options& options, std::string_view name, std::string_view value) {
  const auto number = [&](std::uint64_t least, std::uint64_t most) { return whole(name, value, least, most); };
  const auto small = [&](std::uint64_t least, std::uint64_t most) -> Result<unsigned> {
    return static_cast<unsigned>(TRY(number(least, most)));
  };
  if (name == "--kernels") options.mix = TRY(parse_mix(value));
  else if (name == "--processes") options.processes = TRY(small(1, 64));
  else if (name == "--threads") options.threads = TRY(small(1, 128));
  else if (name == "--streams") options.streams = TRY(small(1, 128));
  else if (name == "--sync") TRY(set_sync(options, value));
  else if (name == "--gap") options.gap_us = TRY(parse_time_us(value));
  else if (name == "--duration") options.duration_us = TRY(parse_time_us(value));
  else if (name == "--launches") options.most_launches = TRY(number(1, ~0ull));
  else if (name == "--blocks") options.blocks = TRY(small(1, 65535));
  else if (name == "--work") options.rounds_per_us = TRY(small(1, 100'000));
  else if (name == "--graph") options.graph_kernels = TRY(small(1, 4096));
  else if (name == "--call") TRY(set_call(options, value));
  else if (name == "--device") options.device = static_cast<int>(TRY(small(0, 255)));
  else if (name == "--mem") options.memory_bytes = TRY(bytes(name, value));
  else if (name == "--grow") options.grow_bytes = TRY(bytes(name, value));
  else if (name == "--attempt") options.attempt_bytes = TRY(bytes(name, value));
  else
    return fail(ErrorCode::usage, "there is no option '" + std::string(name) + "' with a value",
                "see headgate-load --help");
  return {};
}

Result<void> set_option(Options& options, std::string_view word) {
  const auto equals = word.find('=');
  if (word == "--help" || word == "-h") options.help = true;
  else if (word == "--edge") options.edge = true;
  else if (word == "--no-launches") options.no_launches = true;
  else if (word == "--no-idle-list") options.quiet_idle = true;
  else if (word == "--per-thread") options.per_thread = true;
  else if (word.starts_with("--") && equals != std::string_view::npos)
    return set_value(options, word.substr(0, equals), word.substr(equals + 1));
  else
    return fail(ErrorCode::usage, "'" + std::string(word) + "' is not an option with a value",
                "write --name=value; see headgate-load --help");
  return {};
}

constexpr double kLongestUs = 60e6;
constexpr double kShortestUs = 0.001;
constexpr char kForms[] = "write 200us, lognormal:200us,1.0,seed=7 or list:20us,200us,1ms (units ns, us, ms, s)";

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::unexpected<Error> bad_mix(std::string_view text) {
  return fail(ErrorCode::usage, "kernel times '" + std::string(text) + "' cannot be read", kForms);
}

Result<Mix> parse_lognormal(std::string_view whole, std::string_view rest) {
  const auto parts = split(rest, ',');
  if (parts.size() < 2 || parts.size() > 3) return bad_mix(whole);
  Mix mix{.kind = MixKind::lognormal, .times_us = {TRY(parse_time_us(parts[0]))}};
  const auto sigma = number(parts[1]);
  if (!sigma || *sigma < 0 || *sigma > 3)
    return fail(ErrorCode::usage, "sigma '" + parts[1] + "' is not a number from 0 to 3", kForms);
  mix.sigma = *sigma;
  if (parts.size() == 3) {
    std::string_view seed = parts[2];
    if (!seed.starts_with("seed=")) return bad_mix(whole);
    seed.remove_prefix(5);
    const auto number = whole_number<decltype(mix.seed)>(seed);
    if (!number) return bad_mix(whole);
    mix.seed = *number;
  }
  return mix;
}

// splitmix64: small, well known and portable, so that two runs draw the same kernels.
std::uint64_t next_bits(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double next_unit(std::uint64_t& state) {  // in (0, 1]
  return (static_cast<double>(next_bits(state) >> 11) + 1.0) * 0x1p-53;
}

}  // namespace

std::string_view usage() { return kUsage; }

Result<Options> parse_options(std::span<const std::string_view> words) {
  Options options;
  for (const std::string_view word : words) TRY(set_option(options, word));
  if (options.grow_bytes > 0 && (!options.no_launches || options.gap_us <= 0))
    return fail(ErrorCode::usage, "--grow needs a time between its steps, and no launches beside them",
                "write --no-launches --gap=500ms --grow=1GiB");
  if (options.per_thread && options.streams != 1)
    return fail(ErrorCode::usage, "--per-thread with --streams=" + std::to_string(options.streams) + " is not accepted",
                "each thread has one default stream; use more threads");
  return options;
}

Result<double> parse_time_us(std::string_view text) {
  struct Unit {
    std::string_view name;
    double us;
  };
  // Longer names first, because all of them end in "s".
  for (const Unit unit : {Unit{"ns", 1e-3}, Unit{"us", 1}, Unit{"ms", 1e3}, Unit{"s", 1e6}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = number(text.substr(0, text.size() - unit.name.size()));
    if (!value) break;
    const double us = *value * unit.us;
    if (us < kShortestUs || us > kLongestUs)
      return fail(ErrorCode::usage, "time '" + std::string(text) + "' is out of range", "accepted: 1ns to 60s");
    return us;
  }
  return fail(ErrorCode::usage, "time '" + std::string(text) + "' cannot be read",
              "write a number with ns, us, ms or s, such as 200us");
}

Result<Mix> parse_mix(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = colon == std::string_view::npos ? "fixed" : text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? text : text.substr(colon + 1);
  if (kind == "fixed") return Mix{.kind = MixKind::fixed, .times_us = {TRY(parse_time_us(rest))}};
  if (kind == "lognormal") return parse_lognormal(text, rest);
  if (kind == "list") {
    Mix mix{.kind = MixKind::list, .times_us = {}};
    for (const std::string& part : split(rest, ',')) mix.times_us.push_back(TRY(parse_time_us(part)));
    return mix;
  }
  return bad_mix(text);
}

MixSource::MixSource(const Mix& mix, std::uint64_t salt) : mix_(mix), state_(mix.seed * 0x2545f4914f6cdd1d + salt) {}

double MixSource::next_us() {
  switch (mix_.kind) {
    case MixKind::fixed: return mix_.times_us[0];
    case MixKind::list: {
      const double us = mix_.times_us[position_];
      position_ = (position_ + 1) % mix_.times_us.size();
      return us;
    }
    case MixKind::lognormal: break;
  }
  const double radius = std::sqrt(-2.0 * std::log(next_unit(state_)));
  const double normal = radius * std::cos(2.0 * std::numbers::pi * next_unit(state_));
  return std::clamp(mix_.times_us[0] * std::exp(mix_.sigma * normal), kShortestUs, kLongestUs);
}

}  // namespace headgate::load
