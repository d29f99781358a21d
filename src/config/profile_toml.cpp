#include "config/profile_toml.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <vector>

#include "base/joined.hpp"
#include "base/units.hpp"
#include "config/toml.hpp"
#include "sim/message.hpp"
#include "sim/mig.hpp"

namespace headgate::config {
namespace {

using sim::Profile, sim::message;

constexpr std::size_t kMaxBytesOfText = 1 << 20;

std::string in_binary_units(std::uint64_t bytes) {
  for (const auto& [unit, name] :
       {std::pair{kGiB, "GiB"}, std::pair{kMiB, "MiB"}, std::pair{std::uint64_t{1024}, "KiB"}}) {
    if (bytes != 0 && bytes % unit == 0) return message(bytes / unit, name);
  }
  return message(bytes, "B");
}

// "45GiB", "1.5GiB", "512 MiB"; the unit is obligatory and the result a whole number of bytes.
std::optional<std::uint64_t> size_from(std::string_view text) {
  std::uint64_t unit = 0;
  for (const auto& [name, factor] : {std::pair{"KiB", std::uint64_t{1024}}, std::pair{"MiB", kMiB},
                                     std::pair{"GiB", kGiB}, std::pair{"B", std::uint64_t{1}}}) {
    if (unit != 0 || !text.ends_with(name)) continue;
    unit = factor;
    text.remove_suffix(std::strlen(name));
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (unit == 0 || text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  const double bytes = value * static_cast<double>(unit);
  if (!(bytes >= 0) || bytes > 0x1p50 || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

// One key: its range and destination.
template <typename Number>
struct Ranged {
  using Value = Number;
  std::string_view key;
  Number least, most;
  void (*set)(Profile& profile, Number value);
};
using Whole = Ranged<std::int64_t>;
using Size = Ranged<std::uint64_t>;
using Decimal = Ranged<double>;
struct Text {
  std::string_view key;
  std::size_t room;  // size of the field in bytes, including the NUL
  char* (*field)(Profile& profile);
};

// Integers and sizes are stored times `scale`, decimals too, rounded (for clocks and power).
template <typename Number>
constexpr Number stored(Number value, Number scale) {
  return value * scale;
}
inline long long stored(double value, double scale) { return std::llround(value * scale); }

#define RANGED(Type, key, least, most, field, scale)                                            \
  Type {                                                                                        \
    key, least, most, [](Profile& p, Type::Value value) {                                       \
      p.field = static_cast<decltype(p.field)>(stored(value, static_cast<Type::Value>(scale))); \
    }                                                                                           \
  }
#define WHOLE(key, least, most, field, scale) RANGED(Whole, key, least, most, field, scale)
#define SIZE(key, least, most, field) RANGED(Size, key, least, most, field, 1)
#define DECIMAL(key, least, most, field, scale) RANGED(Decimal, key, least, most, field, scale)
#define TEXT(key, field)                                                     \
  Text {                                                                     \
    key, sizeof(Profile::field), [](Profile& p) -> char* { return p.field; } \
  }

constexpr Text kTexts[] = {
    TEXT("name", name),
    TEXT("model", model),
    TEXT("driver_version", driver_version),
    TEXT("vbios_version", vbios_version),
};

constexpr Whole kWholes[] = {
    WHOLE("count", 1, sim::kMaxDevices, count, 1),
    WHOLE("node_seed", 0, std::numeric_limits<std::int64_t>::max(), node_seed, 1),
    WHOLE("cuda_version", 11000, 19990, cuda_version, 1),
    WHOLE("pci_device_id", 1, 0xffffffff, pci_device_id, 1),
    WHOLE("pci_subsystem_id", 0, 0xffffffff, pci_subsystem_id, 1),
    WHOLE("pci_domain", 0, 0xffff, pci_domain, 1),
    WHOLE("pci_first_bus", 1, 255, pci_first_bus, 1),
    WHOLE("pci_bus_step", 1, 255, pci_bus_step, 1),
    WHOLE("nvml_architecture", 2, 64, nvml_architecture, 1),
    WHOLE("nvml_brand", 0, 64, nvml_brand, 1),
    WHOLE("capability_major", 5, 20, capability_major, 1),
    WHOLE("capability_minor", 0, 9, capability_minor, 1),
    WHOLE("sms", 1, 1024, sm_count, 1),
    WHOLE("cores_per_sm", 1, 1024, cores_per_sm, 1),
    WHOLE("max_threads_per_sm", 1024, 4096, max_threads_per_sm, 1),
    WHOLE("max_blocks_per_sm", 1, 64, max_blocks_per_sm, 1),
    WHOLE("max_threads_per_block", 32, 1024, max_threads_per_block, 1),
    WHOLE("registers_per_block", 1024, 1 << 20, registers_per_block, 1),
    WHOLE("copy_engines", 1, 16, copy_engines, 1),
    WHOLE("memory_bus_bits", 32, 65536, memory_bus_bits, 1),
    WHOLE("sm_clock_idle_mhz", 1, 10000, sm_clock_idle_mhz, 1),
    WHOLE("sm_clock_max_mhz", 1, 10000, sm_clock_max_mhz, 1),
    WHOLE("memory_clock_idle_mhz", 1, 100000, memory_clock_idle_mhz, 1),
    WHOLE("memory_clock_max_mhz", 1, 100000, memory_clock_max_mhz, 1),
    WHOLE("temperature_idle_c", 1, 120, temperature_idle_c, 1),
    WHOLE("temperature_full_c", 1, 120, temperature_full_c, 1),
    WHOLE("event_step_ns", 1, 1'000'000, event_step_ns, 1),
    WHOLE("clock_offset_ns", 0, std::int64_t{1} << 60, clock_offset_ns, 1),
    WHOLE("slabs", 0, 1, slab_bytes, 2 * kMiB),
    WHOLE("launch_queue_depth", 1, 1024, launch_queue_depth, 1),
    WHOLE("mps", 0, 1, mps, 1),
    WHOLE("open_setters", 0, 1, open_setters, 1),
    WHOLE("dependent_overlap_ns", 0, 1'000'000, dependent_overlap_ns, 1),
};

constexpr Size kSizes[] = {
    SIZE("memory", 64 * kMiB, 1024 * kGiB, memory_bytes),
    SIZE("reserved", 0, 64 * kGiB, reserved_bytes),
    SIZE("context", 0, 64 * kGiB, context_bytes),
    SIZE("pool_granule", 64 * 1024, 16 * kGiB, pool_granule_bytes),
    SIZE("bar1", 16 * kMiB, 2048 * kGiB, bar1_bytes),
    SIZE("l2", 1024, 2 * kGiB, l2_bytes),
    SIZE("shared_per_block", 1024, 1024 * 1024, shared_bytes_per_block),
    SIZE("shared_per_block_optin", 1024, 1024 * 1024, shared_bytes_per_block_optin),
    SIZE("shared_per_sm", 1024, 1024 * 1024, shared_bytes_per_sm),
};

constexpr Decimal kDecimals[] = {
    DECIMAL("power_idle_w", 0.001, 100000, power_idle_mw, 1000),
    DECIMAL("power_min_w", 0.001, 100000, power_min_mw, 1000),
    DECIMAL("power_default_w", 0.001, 100000, power_default_mw, 1000),
    DECIMAL("power_max_w", 0.001, 100000, power_max_mw, 1000),
    DECIMAL("slice_us", 10, 1'000'000, slice_ns, 1000),
    DECIMAL("switch_us", 0, 1'000'000, switch_ns, 1000),
    DECIMAL("block_us", 0.1, 1'000'000, block_ns, 1000),
    DECIMAL("watchdog_ms", 0, 600'000, watchdog_ns, 1e6),
    DECIMAL("teardown_ms", 0, 60'000, teardown_ns, 1e6),
    DECIMAL("submit_us", 0, 100'000, submit_ns, 1000),
    DECIMAL("host_launch_us", 0, 10'000, host_launch_ns, 1000),
    DECIMAL("clock_drift_ppm", -1000, 1000, clock_drift_ppb, 1000),
    DECIMAL("host_copy_gb_per_s", 0.001, 10'000, host_copy_bytes_per_s, 1e9),
    DECIMAL("device_copy_gb_per_s", 0.001, 100'000, device_copy_bytes_per_s, 1e9),
};

std::string accepted(const Text& key) {
  return message("a text of 1 to ", key.room - 1, " printable ASCII characters");
}
std::string accepted(const Whole& key) { return message("a whole number from ", key.least, " to ", key.most); }
std::string accepted(const Size& key) {
  return message("a size from ", in_binary_units(key.least), " to ", in_binary_units(key.most),
                 " with its unit, such as \"512MiB\"");
}
std::string accepted(const Decimal& key) { return message("a number from ", key.least, " to ", key.most); }

std::string accepted_base() {
  return "one of " + joined(sim::built_in_profiles(), ", ", [](const Profile& one) { return one.name; });
}

// The file position, for errors.
struct Place {
  std::string_view file;
  std::unexpected<Error> at(const toml::source_region& source, std::string_view what, std::string hint) const {
    return fail(ErrorCode::usage, message(file, ":", source.begin.line, ": ", what), std::move(hint));
  }
};

std::string shown(const toml::node& node) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  if (const auto* text = node.as_string()) out << '"' << text->get() << '"';
  else if (const auto* whole = node.as_integer()) out << whole->get();
  else if (const auto* decimal = node.as_floating_point()) out << decimal->get();
  else if (const auto* truth = node.as_boolean()) out << (truth->get() ? "true" : "false");
  else out << (node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or time");
  return std::move(out).str().substr(0, 120);
}

bool assign(const Text& key, const toml::node& node, Profile& profile) {
  const auto* text = node.as_string();
  if (text == nullptr || text->get().empty() || text->get().size() >= key.room) return false;
  if (!std::ranges::all_of(text->get(), [](char c) { return c >= ' ' && c < 0x7f; })) return false;
  char* field = key.field(profile);
  std::memset(field, 0, key.room);
  text->get().copy(field, key.room - 1);
  return true;
}

bool assign(const Whole& key, const toml::node& node, Profile& profile) {
  const auto* whole = node.as_integer();
  if (whole == nullptr || whole->get() < key.least || whole->get() > key.most) return false;
  key.set(profile, whole->get());
  return true;
}

bool assign(const Size& key, const toml::node& node, Profile& profile) {
  const auto* text = node.as_string();
  const auto bytes = text == nullptr ? std::nullopt : size_from(text->get());
  if (!bytes || *bytes < key.least || *bytes > key.most) return false;
  key.set(profile, *bytes);
  return true;
}

bool assign(const Decimal& key, const toml::node& node, Profile& profile) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !(*value >= key.least && *value <= key.most)) return false;
  key.set(profile, *value);
  return true;
}

// Returns whether `keys` contains `name`; then its value is stored.
template <typename Key, std::size_t N>
Result<bool> try_keys(const Key (&keys)[N], std::string_view name, const toml::node& node, const Place& place,
                      Profile& profile) {
  const auto* key = std::ranges::find(keys, name, &Key::key);
  if (key == std::end(keys)) return false;
  if (assign(*key, node, profile)) return true;
  return place.at(node.source(), message(name, " = ", shown(node)), message("accepted: ", accepted(*key)));
}

Result<void> take(std::string_view name, const toml::node& node, const Place& place, Profile& profile) {
  if (TRY(try_keys(kTexts, name, node, place, profile)) || TRY(try_keys(kWholes, name, node, place, profile)) ||
      TRY(try_keys(kSizes, name, node, place, profile)) || TRY(try_keys(kDecimals, name, node, place, profile)))
    return {};
  return place.at(node.source(), message(name.substr(0, 80), " = ", shown(node), ": a profile has no such key"),
                  message("accepted keys: base, ", joined(profile_keys(), ", ", &ProfileKey::name)));
}

Result<Profile> starting_point(const toml::table& table, const Place& place) {
  const toml::node* base = table.get("base");
  const auto* name = base == nullptr ? nullptr : base->as_string();
  const Profile* found = base == nullptr   ? sim::find_profile("h200")
                         : name == nullptr ? nullptr
                                           : sim::find_profile(name->get());
  if (found == nullptr)
    return place.at(base->source(), message("base = ", shown(*base)), message("accepted: ", accepted_base()));
  return *found;
}

constexpr std::string_view kMigAccepted = "a list of MIG slices, such as [\"3g.71gb\", \"1g.18gb\"] of an h200";

// Must run after all other keys, because MIG profiles depend on memory and model.
Result<void> take_mig(const toml::table& table, const Place& place, Profile& profile) {
  const toml::node* node = table.get("mig");
  if (node == nullptr) return {};
  const auto kinds = sim::mig_kinds(profile);
  if (kinds.empty())
    return place.at(node->source(), message("mig = ", shown(*node), ": this card has no MIG"),
                    "accepted: on compute capability 8.0, and from 9.0 on");
  std::string accepted = "accepted: a list of";
  for (const sim::MigSlice kind : kinds)
    accepted += message(kind == kinds.front() ? " " : ", ", sim::mig_name(profile, kind).data());
  accepted += message("; ", sim::kMigComputeSlices, " compute and ", sim::kMigMemorySlices, " memory slices in all");
  const auto* list = node->as_array();
  if (list == nullptr || list->empty())
    return place.at(node->source(), message("mig = ", list == nullptr ? shown(*node) : "[]"), accepted);
  sim::MigSlice taken{};
  for (const toml::node& element : *list) {
    const auto* name = element.as_string();
    const auto kind = std::ranges::find_if(
        kinds, [&](sim::MigSlice one) { return name != nullptr && name->get() == sim::mig_name(profile, one).data(); });
    if (kind == kinds.end())
      return place.at(element.source(), message("mig = ", shown(element), ": no slice of this card"), accepted);
    taken = {taken.compute + kind->compute, taken.memory + kind->memory};
    if (taken.compute > sim::kMigComputeSlices || taken.memory > sim::kMigMemorySlices)
      return place.at(element.source(),
                      message("mig = ", shown(element), ": the slices up to this one are more than a card"), accepted);
    profile.mig[profile.mig_count++] = *kind;
  }
  return {};
}

// Rules over two values; an error names the line of whichever of the two the file sets.
struct Pair {
  std::string_view smaller, larger;
  std::uint64_t (*smaller_of)(const Profile& profile);
  std::uint64_t (*larger_of)(const Profile& profile);
};
#define ORDERED(smaller, smaller_field, larger, larger_field)                           \
  Pair {                                                                                \
    smaller, larger, [](const Profile& p) -> std::uint64_t { return p.smaller_field; }, \
        [](const Profile& p) -> std::uint64_t { return p.larger_field; }                \
  }

constexpr Pair kOrdered[] = {
    ORDERED("reserved", reserved_bytes + 1, "memory", memory_bytes),
    ORDERED("context", context_bytes + p.reserved_bytes, "memory", memory_bytes),
    ORDERED("sm_clock_idle_mhz", sm_clock_idle_mhz, "sm_clock_max_mhz", sm_clock_max_mhz),
    ORDERED("memory_clock_idle_mhz", memory_clock_idle_mhz, "memory_clock_max_mhz", memory_clock_max_mhz),
    ORDERED("power_min_w", power_min_mw, "power_default_w", power_default_mw),
    ORDERED("power_idle_w", power_idle_mw, "power_default_w", power_default_mw),
    ORDERED("power_default_w", power_default_mw, "power_max_w", power_max_mw),
    ORDERED("temperature_idle_c", temperature_idle_c, "temperature_full_c", temperature_full_c),
    ORDERED("shared_per_block", shared_bytes_per_block, "shared_per_block_optin", shared_bytes_per_block_optin),
    ORDERED("shared_per_block_optin", shared_bytes_per_block_optin, "shared_per_sm", shared_bytes_per_sm),
};

Result<void> check_pairs(const toml::table& table, const Place& place, const Profile& profile) {
  for (const Pair& pair : kOrdered) {
    if (pair.smaller_of(profile) <= pair.larger_of(profile)) continue;
    const toml::node* named = table.get(pair.smaller) != nullptr ? table.get(pair.smaller) : table.get(pair.larger);
    const toml::source_region source = named == nullptr ? table.source() : named->source();
    const std::string_view key = table.get(pair.smaller) != nullptr ? pair.smaller : pair.larger;
    const std::string value = named == nullptr ? std::string("the base's") : shown(*named);
    return place.at(source, message(key, " = ", value, ": ", pair.smaller, " does not fit within ", pair.larger),
                    message("accepted: ", pair.smaller, " at most ", pair.larger));
  }
  // A domain has 256 buses, and each GPU needs its own.
  if (profile.pci_first_bus + std::uint64_t{profile.count - 1} * profile.pci_bus_step > 255) {
    const toml::node* named = table.get("pci_bus_step") != nullptr ? table.get("pci_bus_step") : table.get("count");
    if (named == nullptr) named = table.get("pci_first_bus");
    return place.at(named == nullptr ? table.source() : named->source(),
                    message("count = ", profile.count, ", pci_first_bus = ", profile.pci_first_bus,
                            ", pci_bus_step = ", profile.pci_bus_step, ": the last GPU's bus is past 255"),
                    "accepted: pci_first_bus + (count - 1) * pci_bus_step at most 255");
  }
  return {};
}

// Rejects non-ASCII text, because toml++ 3.3 has undefined behaviour on some characters (its whitespace test,
// U+00A0..U+FEFF).
Result<void> check_ascii(std::string_view text, std::string_view file) {
  const auto beyond = std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (beyond == text.end()) return {};
  const auto line = 1 + std::count(text.begin(), beyond, '\n');
  return fail(
      ErrorCode::usage,
      message(file, ":", line, ": byte 0x", std::hex, static_cast<unsigned>(static_cast<unsigned char>(*beyond))),
      "accepted: ASCII, in comments too");
}

}  // namespace

std::span<const ProfileKey> profile_keys() {
  static const std::vector<ProfileKey> keys = [] {
    std::vector<ProfileKey> made;
    for (const Text& key : kTexts) made.push_back({key.key, accepted(key)});
    for (const Whole& key : kWholes) made.push_back({key.key, accepted(key)});
    for (const Size& key : kSizes) made.push_back({key.key, accepted(key)});
    for (const Decimal& key : kDecimals) made.push_back({key.key, accepted(key)});
    made.push_back({"mig", std::string(kMigAccepted)});
    return made;
  }();
  return keys;
}

Result<Profile> parse_profile(std::string_view text, std::string_view file) {
  const Place place{file};
  if (text.size() > kMaxBytesOfText)
    return fail(ErrorCode::usage, message(file, ": ", text.size(), " bytes are no profile"),
                message("at most ", kMaxBytesOfText, " bytes"));
  TRY(check_ascii(text, file));
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed)
    return place.at(parsed.error().source(), message("not TOML: ", parsed.error().description()),
                    "lines such as: count = 2");
  const toml::table& table = parsed.table();
  Profile profile = TRY(starting_point(table, place));
  for (const auto& [key, node] : table) {
    if (key.str() != "base" && key.str() != "mig") TRY(take(key.str(), node, place, profile));
  }
  TRY(check_pairs(table, place, profile));
  TRY(take_mig(table, place, profile));
  return profile;
}

Result<Profile> load_profile(const std::string& name_or_path) {
  if (const Profile* found = sim::find_profile(name_or_path)) return *found;
  if (name_or_path.find('/') == std::string::npos && !name_or_path.ends_with(".toml")) {
    return fail(ErrorCode::usage, message("there is no profile '", name_or_path.substr(0, 120), "'"),
                message("accepted: ", accepted_base(), ", or the path of a .toml file"));
  }
  std::ifstream in(name_or_path, std::ios::binary);
  if (!in) return fail_errno(message("cannot read the profile ", name_or_path), errno);
  std::string text(kMaxBytesOfText + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return fail(ErrorCode::failed, message("cannot read the profile ", name_or_path));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_profile(text, name_or_path);
}

}  // namespace headgate::config
