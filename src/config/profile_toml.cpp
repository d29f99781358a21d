#include "config/profile_toml.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
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

// One key: the values it accepts, and the function that stores one. `take` returns false if the value is not accepted.
struct KnownKey {
  std::string_view name;
  std::string accepted;
  std::function<bool(const toml::node& node, Profile& profile)> take;
};

template <std::size_t kRoom>
KnownKey text_key(std::string_view name, char (Profile::*field)[kRoom]) {
  return {name, message("a text of 1 to ", kRoom - 1, " printable ASCII characters"),
          [field](const toml::node& node, Profile& profile) {
            const auto* text = node.as_string();
            if (text == nullptr || text->get().empty() || text->get().size() >= kRoom) return false;
            if (!std::ranges::all_of(text->get(), [](char c) { return c >= ' ' && c < 0x7f; })) return false;
            std::ranges::fill(profile.*field, '\0');
            text->get().copy(profile.*field, kRoom - 1);
            return true;
          }};
}

// The field holds the value times `scale`.
template <typename Field>
KnownKey whole_key(std::string_view name, std::int64_t least, std::int64_t most, Field Profile::* field,
                   std::int64_t scale = 1) {
  return {name, message("a whole number from ", least, " to ", most), [=](const toml::node& node, Profile& profile) {
            const auto* whole = node.as_integer();
            if (whole == nullptr || whole->get() < least || whole->get() > most) return false;
            profile.*field = static_cast<Field>(whole->get() * scale);
            return true;
          }};
}

template <typename Field>
KnownKey size_key(std::string_view name, std::uint64_t least, std::uint64_t most, Field Profile::* field) {
  return {name,
          message("a size from ", in_binary_units(least), " to ", in_binary_units(most),
                  " with its unit, such as \"512MiB\""),
          [=](const toml::node& node, Profile& profile) {
            const auto* text = node.as_string();
            const auto bytes = text == nullptr ? std::nullopt : size_from(text->get());
            if (!bytes || *bytes < least || *bytes > most) return false;
            profile.*field = static_cast<Field>(*bytes);
            return true;
          }};
}

// The field holds the value times `scale`, rounded.
template <typename Field>
KnownKey decimal_key(std::string_view name, double least, double most, Field Profile::* field, double scale) {
  return {name, message("a number from ", least, " to ", most), [=](const toml::node& node, Profile& profile) {
            const auto value = node.is_number() ? node.value<double>() : std::nullopt;
            if (!value || !(*value >= least && *value <= most)) return false;
            profile.*field = static_cast<Field>(std::llround(*value * scale));
            return true;
          }};
}

const std::vector<KnownKey>& known_keys() {
  static const std::vector<KnownKey> keys = {
      text_key("name", &Profile::name),
      text_key("model", &Profile::model),
      text_key("driver_version", &Profile::driver_version),
      text_key("vbios_version", &Profile::vbios_version),
      whole_key("count", 1, sim::kMaxDevices, &Profile::count),
      whole_key("node_seed", 0, std::numeric_limits<std::int64_t>::max(), &Profile::node_seed),
      whole_key("cuda_version", 11000, 19990, &Profile::cuda_version),
      whole_key("pci_device_id", 1, 0xffffffff, &Profile::pci_device_id),
      whole_key("pci_subsystem_id", 0, 0xffffffff, &Profile::pci_subsystem_id),
      whole_key("pci_domain", 0, 0xffff, &Profile::pci_domain),
      whole_key("pci_first_bus", 1, 255, &Profile::pci_first_bus),
      whole_key("pci_bus_step", 1, 255, &Profile::pci_bus_step),
      whole_key("nvml_architecture", 2, 64, &Profile::nvml_architecture),
      whole_key("nvml_brand", 0, 64, &Profile::nvml_brand),
      whole_key("capability_major", 5, 20, &Profile::capability_major),
      whole_key("capability_minor", 0, 9, &Profile::capability_minor),
      whole_key("sms", 1, 1024, &Profile::sm_count),
      whole_key("cores_per_sm", 1, 1024, &Profile::cores_per_sm),
      whole_key("max_threads_per_sm", 1024, 4096, &Profile::max_threads_per_sm),
      whole_key("max_blocks_per_sm", 1, 64, &Profile::max_blocks_per_sm),
      whole_key("max_threads_per_block", 32, 1024, &Profile::max_threads_per_block),
      whole_key("registers_per_block", 1024, 1 << 20, &Profile::registers_per_block),
      whole_key("copy_engines", 1, 16, &Profile::copy_engines),
      whole_key("memory_bus_bits", 32, 65536, &Profile::memory_bus_bits),
      whole_key("sm_clock_idle_mhz", 1, 10000, &Profile::sm_clock_idle_mhz),
      whole_key("sm_clock_max_mhz", 1, 10000, &Profile::sm_clock_max_mhz),
      whole_key("memory_clock_idle_mhz", 1, 100000, &Profile::memory_clock_idle_mhz),
      whole_key("memory_clock_max_mhz", 1, 100000, &Profile::memory_clock_max_mhz),
      whole_key("temperature_idle_c", 1, 120, &Profile::temperature_idle_c),
      whole_key("temperature_full_c", 1, 120, &Profile::temperature_full_c),
      whole_key("event_step_ns", 1, 1'000'000, &Profile::event_step_ns),
      whole_key("clock_offset_ns", 0, std::int64_t{1} << 60, &Profile::clock_offset_ns),
      whole_key("slabs", 0, 1, &Profile::slab_bytes, 2 * kMiB),
      whole_key("launch_queue_depth", 1, 1024, &Profile::launch_queue_depth),
      whole_key("mps", 0, 1, &Profile::mps),
      whole_key("open_setters", 0, 1, &Profile::open_setters),
      whole_key("dependent_overlap_ns", 0, 1'000'000, &Profile::dependent_overlap_ns),
      size_key("memory", 64 * kMiB, 1024 * kGiB, &Profile::memory_bytes),
      size_key("reserved", 0, 64 * kGiB, &Profile::reserved_bytes),
      size_key("context", 0, 64 * kGiB, &Profile::context_bytes),
      size_key("heap", 0, 64 * kGiB, &Profile::heap_bytes),
      size_key("pool_granule", 64 * 1024, 16 * kGiB, &Profile::pool_granule_bytes),
      size_key("bar1", 16 * kMiB, 2048 * kGiB, &Profile::bar1_bytes),
      size_key("l2", 1024, 2 * kGiB, &Profile::l2_bytes),
      size_key("shared_per_block", 1024, 1024 * 1024, &Profile::shared_bytes_per_block),
      size_key("shared_per_block_optin", 1024, 1024 * 1024, &Profile::shared_bytes_per_block_optin),
      size_key("shared_per_sm", 1024, 1024 * 1024, &Profile::shared_bytes_per_sm),
      decimal_key("power_idle_w", 0.001, 100000, &Profile::power_idle_mw, 1000),
      decimal_key("power_min_w", 0.001, 100000, &Profile::power_min_mw, 1000),
      decimal_key("power_default_w", 0.001, 100000, &Profile::power_default_mw, 1000),
      decimal_key("power_max_w", 0.001, 100000, &Profile::power_max_mw, 1000),
      decimal_key("slice_us", 10, 1'000'000, &Profile::slice_ns, 1000),
      decimal_key("switch_us", 0, 1'000'000, &Profile::switch_ns, 1000),
      decimal_key("block_us", 0.1, 1'000'000, &Profile::block_ns, 1000),
      decimal_key("watchdog_ms", 0, 600'000, &Profile::watchdog_ns, 1e6),
      decimal_key("teardown_ms", 0, 60'000, &Profile::teardown_ns, 1e6),
      decimal_key("submit_us", 0, 100'000, &Profile::submit_ns, 1000),
      decimal_key("host_launch_us", 0, 10'000, &Profile::host_launch_ns, 1000),
      decimal_key("clock_drift_ppm", -1000, 1000, &Profile::clock_drift_ppb, 1000),
      decimal_key("host_copy_gb_per_s", 0.001, 10'000, &Profile::host_copy_bytes_per_s, 1e9),
      decimal_key("device_copy_gb_per_s", 0.001, 100'000, &Profile::device_copy_bytes_per_s, 1e9),
  };
  return keys;
}

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

Result<void> take(std::string_view name, const toml::node& node, const Place& place, Profile& profile) {
  const auto key = std::ranges::find(known_keys(), name, &KnownKey::name);
  if (key == known_keys().end())
    return place.at(node.source(), message(name.substr(0, 80), " = ", shown(node), ": a profile has no such key"),
                    message("accepted keys: base, ", joined(profile_keys(), ", ", &ProfileKey::name)));
  if (key->take(node, profile)) return {};
  return place.at(node.source(), message(name, " = ", shown(node)), message("accepted: ", key->accepted));
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
template <auto field>
std::uint64_t field_of(const Profile& profile) {
  return profile.*field;
}

constexpr Pair kOrdered[] = {
    {"reserved", "memory", [](const Profile& p) { return p.reserved_bytes + 1; }, field_of<&Profile::memory_bytes>},
    {"context", "memory", [](const Profile& p) { return p.context_bytes + p.reserved_bytes; },
     field_of<&Profile::memory_bytes>},
    {"sm_clock_idle_mhz", "sm_clock_max_mhz", field_of<&Profile::sm_clock_idle_mhz>,
     field_of<&Profile::sm_clock_max_mhz>},
    {"memory_clock_idle_mhz", "memory_clock_max_mhz", field_of<&Profile::memory_clock_idle_mhz>,
     field_of<&Profile::memory_clock_max_mhz>},
    {"power_min_w", "power_default_w", field_of<&Profile::power_min_mw>, field_of<&Profile::power_default_mw>},
    {"power_idle_w", "power_default_w", field_of<&Profile::power_idle_mw>, field_of<&Profile::power_default_mw>},
    {"power_default_w", "power_max_w", field_of<&Profile::power_default_mw>, field_of<&Profile::power_max_mw>},
    {"temperature_idle_c", "temperature_full_c", field_of<&Profile::temperature_idle_c>,
     field_of<&Profile::temperature_full_c>},
    {"shared_per_block", "shared_per_block_optin", field_of<&Profile::shared_bytes_per_block>,
     field_of<&Profile::shared_bytes_per_block_optin>},
    {"shared_per_block_optin", "shared_per_sm", field_of<&Profile::shared_bytes_per_block_optin>,
     field_of<&Profile::shared_bytes_per_sm>},
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
    for (const KnownKey& key : known_keys()) made.push_back({key.name, key.accepted});
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
