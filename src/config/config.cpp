#include "config/config.hpp"

#include "base/did_you_mean.hpp"
#include "base/duration.hpp"
#include "base/joined.hpp"
#include "base/split.hpp"
#include "base/whole_number.hpp"
#include "config/listen_address.hpp"
#include "config/power_toml.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "guest/grant/size.hpp"
#include "guest/grant/text.hpp"
#include "sim/profile.hpp"

namespace headgate::config {
namespace {

namespace fs = std::filesystem;

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, value) != words.end();
}

std::uint32_t whole(std::string_view text) { return whole_number<std::uint32_t>(text).value_or(0); }

// Returns true for a whole number with s, m or h, from a second to an hour.
bool is_wait(std::string_view value) {
  const auto time = read_duration(value);
  return time && *time <= std::chrono::hours(1);
}

bool is_listen_address(std::string_view value) { return parse_listen_address(value).has_value(); }
bool is_api_group(std::string_view value) { return is_one_of(value, {"gpu-control", "gpu-read", "cpu-read"}); }

// Checks each entry of a comma-separated list with at least one entry.
bool each(std::string_view list, bool (*holds)(std::string_view)) {
  return std::ranges::all_of(split(list, ','), holds);
}

Key choice(std::string_view name, std::string_view fallback, std::string_view accepted, std::string_view meaning) {
  return {name, fallback, accepted, meaning, 0, 1, false, true};
}

// Returns true for one of the words in "warn, freeze or kill".
bool is_chosen_from(std::string_view accepted, std::string_view value) {
  for (;;) {
    const auto comma = accepted.find(", "), last = accepted.find(" or "), end = std::min(comma, last);
    if (accepted.substr(0, end) == value) return true;
    if (end == std::string_view::npos) return false;
    accepted.remove_prefix(end + (comma < last ? 2 : 4));
  }
}

constexpr std::string_view kTruth = "true or false", kPath = "a path that begins with /";

// Returns why the value is not valid for the key; empty if it is.
std::string_view objection(const Key& known, std::string_view value) {
  const std::string_view key = known.name;
  if (known.most != 0) {
    const std::uint32_t number = whole(value);
    return number >= known.least && number <= known.most ? "" : "is not accepted";
  }
  if (known.choice) return is_chosen_from(known.accepted, value) ? "" : "is not understood";
  if (known.accepted == kPath) return value.starts_with('/') ? "" : "is a relative path";
  if (key == "defaults.mem" || key == "node.reserve") {
    const auto memory = grant::parse_memory(value);
    if (!memory) return grant::describe(memory.fault);
    return key == "node.reserve" && memory.value.bytes == 0 ? "is no size in bytes" : "";
  }
  if (key == "defaults.compute") {
    const auto compute = grant::parse_compute(value);
    return compute ? "" : grant::describe(compute.fault);
  }
  if (key == "node.admit_timeout") return is_wait(value) ? "" : "is not understood";
  if (key == "events.keep" || key == "metrics.interval") {
    const auto time = read_duration(value);
    return time ? "" : time.error().why;
  }
  if (key == "node.listen") return is_listen_address(value) ? "" : "is no address";
  if (key == "cdi.dir") return value == "none" || value.starts_with('/') ? "" : "is a relative path";
  // The contents of a profile's file are checked when the node is made.
  if (key == "sim.profile")
    return sim::find_profile(value) != nullptr || value.contains('/') || value.ends_with(".toml") ? ""
                                                                                                  : "names no profile";
  if (key == "zeusd.listen") return each(value, is_listen_address) ? "" : "has an entry that is no address";
  if (key == "zeusd.enable") return each(value, is_api_group) ? "" : "has an entry that is no API group";
  return value.empty() ? "is empty" : "";
}

constexpr std::string_view kCards = "cards.";

// [cards]: "RTX PRO 6000" = 503.8
void take_card(const std::string& key, const toml::node& node, const std::string& name, Reading& reading) {
  const std::optional<double> tflops = node.is_number() ? node.value<double>() : std::nullopt;
  if (!tflops || !(*tflops > 0 && *tflops <= 1e6) || key.size() == kCards.size()) {
    reading.errors.push_back(
        {ErrorCode::usage,
         place_in(name, node.source()) + ": " + key + " = " + node_text(node) + " is no card's TFLOPS",
         "accepted: a part of the card's name and its dense FP16 TFLOPS, more than 0 and at most "
         "1000000: \"RTX PRO 6000\" = 503.8"});
    return;
  }
  auto& settings = reading.config.settings;
  auto written = std::ranges::find(settings, key, &Setting::key);
  if (written == settings.end())
    written = settings.insert(settings.end(), Setting{.key = key, .value = {}, .origin = {}});
  written->value = node_text(node);
  written->origin = place_in(name, node.source());
}

// Suggests a near key or the same key in another table; else lists this table's keys, or the tables.
std::string hint_for_unknown(const std::string& key) {
  const auto last_part = [](std::string_view text) { return text.substr(text.rfind('.') + 1); };
  const std::string table = key.substr(0, key.find('.') == std::string::npos ? 0 : key.find('.'));
  std::vector<std::string> whole, parts, tables = {"cards"}, here;
  for (const Key& one : keys()) {
    const std::string of(one.name.substr(0, one.name.find('.')));
    whole.emplace_back(one.name);
    parts.emplace_back(last_part(one.name));
    if (std::ranges::find(tables, of) == tables.end()) tables.push_back(of);
    if (of == table) here.push_back(parts.back());
  }
  std::string meant = did_you_mean(key, whole);
  if (meant.empty()) {
    const std::string part = did_you_mean(last_part(key), parts);
    const auto found = std::ranges::find(parts, part);
    if (found != parts.end()) meant = whole[static_cast<std::size_t>(found - parts.begin())];
  }
  std::ranges::sort(tables);
  const std::string list = joined(here.empty() ? tables : here, ", ");
  return (meant.empty() ? "" : "did you mean " + meant + "? ") +
         (here.empty() ? "tables: " + list + "; headgate config show lists all keys"
                       : "keys of [" + table + "]: " + list);
}

// Joins an array of texts without commas; empty if it is not one.
std::optional<std::string> list_text(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr || array->empty()) return std::nullopt;
  std::string all;
  for (const toml::node& one : *array) {
    const auto* text = one.as_string();
    if (text == nullptr || text->get().empty() || text->get().contains(',')) return std::nullopt;
    all += (all.empty() ? "" : ",") + text->get();
  }
  return all;
}

void refuse(const Key& known, std::string_view problem, const toml::node& node, const std::string& name,
            Reading& reading) {
  reading.errors.push_back({ErrorCode::usage,
                            place_in(name, node.source()) + ": " + std::string(known.name) + " = " + node_text(node) +
                                " " + std::string(problem),
                            "accepted: " + std::string(known.accepted)});
}

void store(const Key& known, std::string value, const toml::node& node, const std::string& name, Reading& reading) {
  if (const std::string_view problem = objection(known, value); !problem.empty())
    return refuse(known, problem, node, name, reading);
  Setting& setting = reading.config.settings[static_cast<std::size_t>(&known - keys().data())];
  setting.value = std::move(value);
  setting.origin = place_in(name, node.source());
}

void take(const std::string& key, const toml::node& node, const std::string& name, Reading& reading) {
  if (key == "power.grant") return read_power_grants(node, name, reading.config.power_grants, reading.errors);
  if (key.starts_with(kCards)) return take_card(key, node, name, reading);
  const auto known = std::ranges::find(keys(), key, &Key::name);
  if (known == keys().end()) {
    reading.errors.push_back(
        {ErrorCode::usage, place_in(name, node.source()) + ": unknown key '" + key + "'", hint_for_unknown(key)});
    return;
  }
  std::optional<std::string> listed = known->list ? list_text(node) : std::nullopt;
  if (listed) return store(*known, std::move(*listed), node, name, reading);
  const auto* text = node.as_string();
  const bool bare = (known->most != 0 && node.is_integer()) || (known->accepted == kTruth && node.is_boolean());
  const std::string value = text != nullptr ? text->get() : bare ? node_text(node) : "";
  if (text == nullptr && !bare)
    return refuse(*known,
                  known->list                 ? "is no list of texts in quotes"
                  : known->accepted == kTruth ? "is not understood"
                                              : "is not a text in quotes",
                  node, name, reading);
  store(*known, value, node, name, reading);
}

void walk(const toml::table& table, const std::string& prefix, const std::string& name, Reading& reading) {
  for (const auto& [part, node] : table) {
    const std::string key = prefix + std::string(part.str());
    if (key == "power.profile") read_power_profiles(node, name, reading.config.power_profiles, reading.errors);
    else if (const auto* inner = node.as_table()) walk(*inner, key + ".", name, reading);
    else take(key, node, name, reading);
  }
}

constexpr std::size_t kMaxBytesOfText = 1 << 20;

void read_file(const std::string& path, Reading& reading) {
  // A directory would read as an empty file, and a pipe would block forever.
  std::error_code unknown;
  const auto kind = std::filesystem::status(path, unknown).type();
  if (kind == std::filesystem::file_type::directory || kind == std::filesystem::file_type::fifo ||
      kind == std::filesystem::file_type::socket) {
    reading.errors.push_back({ErrorCode::usage, path + " is no file", "the path of a TOML file"});
    return;
  }
  std::ifstream in(path, std::ios::binary);
  // headgate-oci reads it at each container start, so allocate no more than the file's size.
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  std::string text(std::min<std::uintmax_t>(unknown ? kMaxBytesOfText : size, kMaxBytesOfText) + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) {
    reading.errors.push_back({ErrorCode::denied, "cannot read " + path, "the file must be readable for you"});
    return;
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxBytesOfText) {
    reading.errors.push_back({ErrorCode::usage, path + " is longer than 1 MiB, so it is no configuration of headgate",
                              "the path of a TOML file"});
    return;
  }
  read_text(text, path, reading);
}

// An unreadable file is not treated as missing, because it may contain limits.
Error out_of_sight(const std::string& path, const std::error_code& why) {
  return {ErrorCode::denied, "cannot look at " + path + ": " + why.message(),
          "the file, and conf.d beside it, must be readable for you"};
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      {"defaults.mem", "", grant::accepted_memory(grant::Dialect::headgate),
       "memory limit of a share whose run names none"},
      {"defaults.compute", "", grant::accepted_compute(grant::Dialect::headgate),
       "share of the GPU's time where a run names none"},
      choice("defaults.fail_policy", "open", "open or closed", "what happens to launches that cannot be measured"),
      choice("defaults.log", "error", "off, error, warn, info or debug", "what the limiter says on stderr"),
      choice("arbiter.policy", "fair", "fair, priority or off", "how shares that want a GPU divide it, on each GPU"),
      choice("audit.policy", "warn", "warn, freeze or kill", "what is done with a program that goes around its share"),
      {"audit.exempt", "", "names of programs, with commas; NAME@USER: that user's too",
       "beside the driver's own servers, Xorg and DCGM"},
      {"mps.tool", "", "the path of an nvidia-cuda-mps-control",
       "the MPS control daemon that shares under MPS are run with; by default that of PATH"},
      choice("mps.exclusive", "false", kTruth,
             "a GPU is in compute mode exclusive process while headgated's MPS control daemon serves it"),
      choice(
          "mps.multi_user", "false", kTruth,
          "one MPS server of a GPU serves all users' shares, if the tool has that mode; a fault then ends all of them"),
      {"node.nvml", "", "the path of a libnvidia-ml.so.1",
       "the driver's NVML where the loader does not find it (/run/nvidia/driver/...)"},
      {"node.reserve", "512MiB", "a size such as 512MiB", "memory of each GPU that headgated never commits to shares"},
      {"node.admit_timeout", "30s", "1s to 1h: 30s, 5m",
       "how long a process waits for the scheduler's leave in a share with --admit=ask; then it is refused"},
      {"node.group", "headgate", "a group of this machine", "whose members administer headgated"},
      choice("node.callers", "group", "group or all",
             "mode of the control socket; users outside the group use their own shares, and see totals of others'"),
      {"node.listen", "", "ADDR:PORT such as 127.0.0.1:9471 or [::1]:9471",
       "HTTP over TCP too; elsewhere than on loopback only with a token file"},
      {"node.token_file", "", "a path", "whose first line lets a caller over TCP administer headgated"},
      choice("node.pid_namespace", "host", "host or own",
             "own: start in a container's too, where all programs of the GPU are in that container"),
      {"node.names", "", "names of this machine, with commas",
       "that a request over TCP may call it by, beside localhost and its addresses"},
      {"node.connections", "512", "1 to 16384", "HTTP connections at once, over Unix sockets", 16'384},
      {"node.connections_per_user", "128", "1 to 16384",
       "one user's; over TCP, those with the token, and those without", 16'384},
      {"node.streams_per_user", "32", "1 to 16384", "streams of events that one user follows at once", 16'384},
      {"node.shares_per_user", "64", "1 to 1024", "shares of a user that is no administrator and has no quota of them",
       1'024},
      {"events.rows", "100000", "1000 to 1000000", "events that are kept over restarts, some 300 bytes each", 1'000'000,
       1000},
      {"events.keep", "7d", "a whole number and s, m, h or d: 12h, 7d", "for how long they are kept at most"},
      {"metrics.file", "", kPath, "to which figures and events are added, for collectors of files"},
      choice("metrics.format", "influx", "influx or json", "how: InfluxDB's line protocol, or one JSON object a line"),
      {"metrics.interval", "10s", "a whole number and s, m, h or d: 10s, 1m", "how often"},
      {"metrics.job_directory", "", kPath,
       "where a file a GPU names the Slurm jobs that use it, for NVIDIA's exporter"},
      {"cdi.dir", "", "a path that begins with /, or none",
       "where container engines find a file of each share; of root's daemon /var/run/cdi"},
      {"runtime.program", "", kPath, "what headgate-oci executes; else the first of runc and crun on PATH"},
      {"runtime.gpu_without_share", "pass", "pass, refuse, or the name of a share",
       "what headgate-oci does with a container that has a GPU and asks for no share"},
      choice("runtime.env", "false", kTruth,
             "HEADGATE_SHARE in the environment, which an image can set too, names a container's share"),
      choice("runtime.image", "refuse", "refuse, warn or mps",
             "what is done with an image whose programs cannot load the limiter; mps: it starts if the share has MPS"),
      {"zeusd.socket", "", kPath, "where headgated serves the API of zeusd: power and clocks"},
      {"zeusd.listen", "", "a list of ADDR:PORT such as [\"127.0.0.1:4938\"]",
       "the same over TCP; elsewhere than on loopback only with a signing key", 0, 1, true},
      {"zeusd.signing_key", "", kPath,
       "whose bytes sign the tokens that the API asks for (headgate zeusd token issue)"},
      {"zeusd.enable", "gpu-control,gpu-read,cpu-read", "a list of gpu-control, gpu-read, cpu-read",
       "the groups of that API that answer", 0, 1, true},
      {"zeusd.command_overrides", "", kPath, "a TOML file of commands that set power and clocks instead of the driver"},
      choice("zeusd.session", "none", "none, process or login",
             "what becomes of settings over that socket: they stay, or the former values are put back 2 s after the "
             "client's "
             "process, or its login session, has ended"),
      {"power.at_start", "", "the name of a [power.profile.NAME]",
       "the site's own settings: made at each start of the daemon, and by a reset"},
      {"power.nvidia_smi", "", "the path of an nvidia-smi",
       "the tool that sets the length of time slices; by default that of PATH"},
      choice("power.drift", "report", "report or reapply",
             "what is done with a lease's setting that a GPU has no longer: told, or made again too"),
      {"sim.profile", "h200", "h200, h200-cuda13, h200-r615, l40s-x2, tiny, or the path of a profile",
       "the simulated node that --sim makes"},
  };
  return table;
}

Result<void> may_listen(const std::string& said, const std::string& address, bool has_token) {
  const std::string host = address.substr(0, address.rfind(':'));
  if (has_token || host.starts_with("127.") || host == "[::1]" || host == "::1") return {};
  return fail(ErrorCode::usage, said + " '" + address + "' can be reached from outside, and there is no token",
              "set node.token_file, or listen on 127.0.0.1");
}

const Setting& Config::operator[](std::string_view key) const {
  static const Setting none;
  const auto found = std::ranges::find(settings, key, &Setting::key);
  return found == settings.end() ? none : *found;
}

std::uint32_t Config::number(std::string_view key) const { return whole((*this)[key].value); }

GpuThroughput Config::cards() const {
  GpuThroughput cards;
  for (const Setting& setting : settings) {
    if (setting.key.starts_with(kCards))
      cards.emplace_back(setting.key.substr(kCards.size()), std::strtod(setting.value.c_str(), nullptr));
  }
  return cards;
}

Reading defaults() {
  Reading reading;
  for (const Key& key : keys())
    reading.config.settings.push_back({std::string(key.name), std::string(key.fallback), "default"});
  return reading;
}

void read_text(std::string_view text, const std::string& name, Reading& reading) {
  reading.config.files.push_back(name);
  const toml::parse_result result = toml::parse(text, name);
  if (!result) {
    reading.errors.push_back(
        {ErrorCode::usage, place_in(name, result.error().source()) + ": " + std::string(result.error().description()),
         "each line is a table such as [node], or a key and its value, a text in quotes: callers "
         "= \"all\""});
    return;
  }
  walk(result.table(), "", name, reading);
}

Reading read(const std::string& file, bool must_exist) {
  Reading reading = defaults();
  std::error_code error;
  if (fs::exists(file, error)) read_file(file, reading);
  else if (error) reading.errors.push_back(out_of_sight(file, error));
  else if (must_exist)
    reading.errors.push_back(
        {ErrorCode::usage, "there is no configuration file " + file, "write the path of a TOML file"});
  const std::string folder = (fs::path(file).parent_path() / "conf.d").string();
  std::vector<std::string> drop_ins;
  error.clear();
  for (fs::directory_iterator at_entry(folder, error), end; !error && at_entry != end; at_entry.increment(error)) {
    if (at_entry->path().extension() == ".toml") drop_ins.push_back(at_entry->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) reading.errors.push_back(out_of_sight(folder, error));
  std::ranges::sort(drop_ins);
  for (const auto& path : drop_ins) read_file(path, reading);
  return reading;
}

}  // namespace headgate::config
