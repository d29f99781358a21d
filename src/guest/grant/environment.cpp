#include "guest/grant/environment.hpp"

#include "guest/bare/text.hpp"
#include "guest/grant/card_table.hpp"
#include "guest/grant/device_map.hpp"
#include "guest/grant/text.hpp"

namespace headgate::grant {
namespace {

constexpr std::uint32_t kNoIndex = ~0u;
constexpr std::uint32_t kUnset = ~0u;
constexpr std::string_view kOurPrefix = "HEADGATE_";

// NAME=VALUE with a name in the table.
struct Setting {
  const Variable* row = nullptr;
  std::uint32_t index = kNoIndex;  // of the suffix
  std::string_view name;           // as written, with suffix
  std::string_view value;
};

const Variable* row_named(std::string_view name) {
  for (const Variable& row : variables()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Of a name that is not known: the row of ours whose limit or GPU it seems to mean, as HEADGATE_MEMORY or
// HEADGATE_GPUS. Left out, it would be a program without that limit.
const Variable* row_meant(std::string_view name) {
  if (first(name, kOurPrefix.size()) != kOurPrefix) return nullptr;
  for (const Variable& row : variables()) {
    const bool limits = row.meaning == Meaning::memory || row.meaning == Meaning::host_memory ||
                        row.meaning == Meaning::ceiling || row.meaning == Meaning::soft || row.meaning == Meaning::gpu;
    if (row.ours && limits && name.size() > row.name.size() && first(name, row.name.size()) == row.name) return &row;
  }
  return nullptr;
}

// NAME, or NAME_<digits> where the row takes an index.
Setting known(std::string_view name, std::string_view value) {
  Setting setting{.name = name, .value = value};
  if (const Variable* row = row_named(name)) {
    if (row->meaning != Meaning::uuid_at) setting.row = row;
    return setting;
  }
  std::size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) --digits;
  std::uint64_t index = 0;
  if (digits < 2 || name[digits - 1] != '_' || !whole_number(from(name, digits), kNoIndex, index)) return setting;
  const Variable* row = row_named(first(name, digits - 1));
  if (row == nullptr || !row->indexed) return setting;
  setting.row = row;
  setting.index = static_cast<std::uint32_t>(index);
  return setting;
}

bool parse_flag(std::string_view text, bool& flag) {
  if (text == "1" || same_ignoring_case(text, "true")) return flag = true, true;
  if (text == "0" || same_ignoring_case(text, "false")) return flag = false, true;
  return false;
}

bool is_uuid(std::string_view text) {
  if (!starts_ignoring_case(text, "GPU-") || text.size() < 5 || text.size() > 47) return false;
  for (const char c : from(text, 4)) {
    if (!is_digit(c) && c != '-' && (lower(c) < 'a' || lower(c) > 'z')) return false;
  }
  return true;
}

constexpr bool member_is_flops(std::uint64_t DeviceGrant::* member) {
  return member == &DeviceGrant::ceiling_megaflops;
}
template <typename Member>
constexpr bool member_is_flops(Member) {
  return false;
}

class Reader {
 public:
  Reader(std::span<const std::string_view> visible, std::span<const std::string_view> present)
      : visible_(visible), present_(present) {
    reading_.grant.device_count =
        static_cast<std::uint32_t>(visible.size() < kMaxDevices ? visible.size() : kMaxDevices);
    for (auto& ranks : rank_) {
      for (auto& rank : ranks) rank = kUnset;
    }
  }

  Reading read(const char* const* envp) {
    each(envp, &Reader::note_uuids);
    each(envp, &Reader::apply);
    for (auto& device : reading_.grant.devices) {
      if (device.ceiling_megaflops == 0 && device.soft_ppm <= device.ceiling_ppm) device.soft_ppm = 0;
    }
    return reading_;
  }

 private:
  enum Field { kMemory, kHostMemory, kCeiling, kSoft, kOversubscribe, kFields };

  template <typename Visit>
  void each(const char* const* envp, Visit visit) {
    for (; envp != nullptr && *envp != nullptr && !reading_.refusal; ++envp) {
      const std::string_view entry(*envp);
      const std::size_t equals = position(entry, '=');
      if (equals == entry.size()) continue;
      const Setting setting = known(first(entry, equals), from(entry, equals + 1));
      if (setting.row != nullptr) (this->*visit)(setting);
      else if (const Variable* const meant = row_meant(setting.name))
        reading_.refusal = {Fault::unknown_name, setting.name, setting.value, meant->name};
    }
  }

  void refuse(const Setting& setting, Fault fault) {
    if (reading_.refusal) return;
    reading_.refusal = {fault, setting.name, setting.value, accepted(setting.row->syntax)};
  }

  // First pass: collects the UUID list that index suffixes refer to.
  void note_uuids(const Setting& setting) {
    if (setting.row->meaning == Meaning::uuid_at) {
      if (!is_uuid(trimmed(setting.value)))
        return refuse(setting, trimmed(setting.value).empty() ? Fault::empty : Fault::junk);
      if (setting.index < kMaxDevices) {
        listed_[setting.index] = trimmed(setting.value);
        pinned_[setting.index] = true;
        has_list_ = true;
      }
    }
    if (setting.row->meaning != Meaning::uuid_list) return;
    const bool wins = rank_of(setting) < list_rank_;
    std::string_view rest = setting.value;
    if (trimmed(rest).empty()) return refuse(setting, Fault::empty);
    for (std::uint32_t i = 0; wins && i < kMaxDevices; ++i) {
      if (!pinned_[i]) listed_[i] = {};
    }
    for (std::uint32_t i = 0;; ++i) {
      const std::size_t comma = position(rest, ',');
      const std::string_view uuid = trimmed(first(rest, comma));
      if (!is_uuid(uuid)) return refuse(setting, uuid.empty() ? Fault::empty : Fault::junk);
      if (i >= kMaxDevices) return refuse(setting, Fault::overflow);
      if (wins && !pinned_[i]) listed_[i] = uuid;
      if (comma == rest.size()) break;
      rest = from(rest, comma + 1);
    }
    if (!wins) return;
    list_rank_ = rank_of(setting);
    has_list_ = true;
  }

  // Ranks a setting by kind of name, then by row of the table; the smaller rank wins.
  std::uint32_t rank_of(const Setting& setting) const {
    const auto place = static_cast<std::uint32_t>(setting.row - variables().data());
    const std::uint32_t group = (setting.row->ours ? 0 : 2) + (setting.index == kNoIndex ? 1 : 0);
    return group * 1000 + place;
  }

  std::uint32_t visible_position(std::string_view uuid) const {
    for (std::uint32_t i = 0; i < reading_.grant.device_count; ++i) {
      if (same_ignoring_case(visible_[i], uuid)) return i;
    }
    return kNoIndex;
  }

  // Returns the visible device that an index suffix means, or kNoIndex if this process cannot see it.
  std::uint32_t device_at(std::uint32_t index) const {
    if (!has_list_) return index < reading_.grant.device_count ? index : kNoIndex;
    return index < kMaxDevices && !listed_[index].empty() ? visible_position(listed_[index]) : kNoIndex;
  }

  // For an index that means no visible device: returns whether it means no GPU at all.
  bool is_absent(std::uint32_t index) const {
    if (present_.empty()) return false;
    if (!has_list_) return index >= present_.size();
    return index >= kMaxDevices || listed_[index].empty() || is_absent(listed_[index]);
  }
  bool is_absent(std::string_view uuid) const {
    for (const std::string_view each : present_)
      if (same_ignoring_case(each, uuid)) return false;
    return !present_.empty();
  }

  template <typename Value>
  void put(std::uint32_t device, Field field, const Setting& setting, Value DeviceGrant::* member, Value value) {
    const std::uint32_t rank = rank_of(setting);
    if (rank >= rank_[device][field]) return;
    rank_[device][field] = rank;
    DeviceGrant& granted = reading_.grant.devices[device];
    granted.*member = value;
    if (field == kMemory) granted.memory_entry = setting.name.data();
    if (field == kSoft) granted.soft_entry = setting.name.data();
    if (field != kCeiling) return;
    granted.ceiling_entry = setting.name.data();
    const bool flops = member_is_flops(member);
    if (!flops) granted.ceiling_megaflops = 0;
    else granted.ceiling_ppm = 0;
  }

  // Grants one value to the device of the suffix, or to all visible devices.
  template <typename Value>
  void grant(const Setting& setting, Field field, Value DeviceGrant::* member, Parsed<Value> parsed) {
    if (!parsed) return refuse(setting, parsed.fault);
    if (field != kOversubscribe) reading_.grant.asks = true;
    if (setting.index != kNoIndex) {
      const std::uint32_t device = device_at(setting.index);
      if (device != kNoIndex) put(device, field, setting, member, parsed.value);
      else if (is_absent(setting.index)) refuse(setting, Fault::no_such_gpu);
      return;
    }
    for (std::uint32_t i = 0; i < reading_.grant.device_count; ++i) put(i, field, setting, member, parsed.value);
  }

  void grant_memory(const Setting& setting) {
    if (setting.row->syntax == Syntax::memory_map) return grant_map(setting);
    const auto dialect = setting.row->syntax == Syntax::memory ? Dialect::headgate : Dialect::bare_bytes;
    grant(setting, kMemory, &DeviceGrant::memory, parse_memory(setting.value, dialect));
  }

  void grant_host_memory(const Setting& setting) {
    grant(setting, kHostMemory, &DeviceGrant::host_memory, parse_memory(setting.value, Dialect::headgate));
  }

  void grant_compute(const Setting& setting, Field field, std::uint32_t DeviceGrant::* member) {
    if (setting.row->syntax == Syntax::percent_map) return grant_map(setting);
    if (setting.row->syntax == Syntax::compute && field == kCeiling && ends_in_flops(trimmed(setting.value))) {
      const std::uint64_t megaflops = parse_megaflops(trimmed(setting.value));
      return grant(setting, field, &DeviceGrant::ceiling_megaflops,
                   Parsed<std::uint64_t>{megaflops, megaflops == 0 ? Fault::junk : Fault::none});
    }
    const auto dialect = setting.row->syntax == Syntax::compute ? Dialect::headgate : Dialect::bare_percent;
    grant(setting, field, member, parse_compute(setting.value, dialect));
  }

  void grant_map(const Setting& setting) {
    DeviceMap map(setting.value);
    DeviceMap::Entry entry;
    bool any = false;
    if (trimmed(setting.value).empty()) return refuse(setting, Fault::empty);
    for (;;) {
      const auto step = map.next(entry);
      if (step == DeviceMap::Step::malformed) return refuse(setting, Fault::junk);
      if (step == DeviceMap::Step::end) break;
      any = true;
      if (!grant_map_entry(setting, entry)) return;
    }
    if (!any) refuse(setting, Fault::empty);
  }

  bool grant_map_entry(const Setting& setting, const DeviceMap::Entry& entry) {
    std::uint64_t index = 0;
    std::uint32_t device = kNoIndex;
    bool absent = false;
    if (whole_number(entry.key, kNoIndex, index)) {
      device = device_at(static_cast<std::uint32_t>(index));
      absent = device == kNoIndex && is_absent(static_cast<std::uint32_t>(index));
    } else if (is_uuid(entry.key)) {
      device = visible_position(entry.key);
      absent = device == kNoIndex && is_absent(entry.key);
    } else {
      return refuse(setting, Fault::junk), false;
    }
    if (absent) return refuse(setting, Fault::no_such_gpu), false;
    reading_.grant.asks = true;
    const Setting indexed{setting.row, 0, setting.name, setting.value};  // a map entry ranks like a name with a suffix
    const auto give = [&](Field field, auto member, auto parsed) {
      if (!parsed) return refuse(setting, parsed.fault), false;
      if (device != kNoIndex) put(device, field, indexed, member, parsed.value);
      return true;
    };
    return setting.row->syntax == Syntax::memory_map
               ? give(kMemory, &DeviceGrant::memory, parse_memory(entry.value, Dialect::bare_bytes))
               : give(kCeiling, &DeviceGrant::ceiling_ppm, parse_compute(entry.value, Dialect::bare_percent));
  }

  void grant_oversubscription(const Setting& setting) {
    bool flag = false;
    Parsed<std::uint32_t> ppm{.fault = setting.value.empty() ? Fault::empty : Fault::junk};
    if (setting.row->syntax != Syntax::ratio && parse_flag(setting.value, flag)) ppm = {flag ? kWholePpm : 0};
    else if (setting.row->syntax != Syntax::flag) ppm = parse_ratio(setting.value);
    grant(setting, kOversubscribe, &DeviceGrant::oversubscribe_ppm, ppm);
  }

  void set_log(const Setting& setting) {
    static constexpr std::string_view kWords[] = {"off", "error", "warn", "info", "debug"};
    // The levels of other limiters are cumulative. LOGGER_LEVEL starts with infos, then adds errors, warnings, fatal
    // errors (its default), "verbose" and details. Errors are never hidden here.
    static constexpr LogLevel kSeed[] = {LogLevel::error, LogLevel::error, LogLevel::warn,
                                         LogLevel::warn,  LogLevel::info,  LogLevel::debug};
    static constexpr LogLevel kHami[] = {LogLevel::error, LogLevel::error, LogLevel::warn, LogLevel::info,
                                         LogLevel::debug};
    std::uint64_t number = 0;
    std::uint32_t level = kUnset;
    if (setting.row->syntax == Syntax::log_word) {
      for (std::uint32_t i = 0; i < 5; ++i) {
        if (same_ignoring_case(setting.value, kWords[i])) level = i;
      }
    } else if (setting.row->syntax == Syntax::log_seed) {
      if (whole_number(setting.value, 6, number)) level = static_cast<std::uint32_t>(kSeed[number]);
    } else if (whole_number(setting.value, 5, number)) {
      level = static_cast<std::uint32_t>(kHami[number]);
    }
    if (level == kUnset) return refuse(setting, setting.value.empty() ? Fault::empty : Fault::junk);
    if (rank_of(setting) >= log_rank_) return;
    log_rank_ = rank_of(setting);
    reading_.grant.log = static_cast<LogLevel>(level);
    reading_.grant.log_infos = setting.row->syntax == Syntax::log_seed;
    reading_.grant.log_said = true;
  }

  void set_text(const Setting& setting, std::string_view Grant::* member) {
    if (setting.value.empty()) return refuse(setting, Fault::empty);
    if (setting.row->syntax == Syntax::share_name && !is_share_name(setting.value)) return refuse(setting, Fault::junk);
    if (setting.row->syntax == Syntax::absolute_path && (setting.value[0] != '/' || setting.value.size() > 255))
      return refuse(setting, Fault::junk);
    if (member != nullptr && (reading_.grant.*member).empty()) reading_.grant.*member = setting.value;
  }

  void set_flag(const Setting& setting, bool* flag) {
    bool value = false;
    if (!parse_flag(setting.value, value)) return refuse(setting, setting.value.empty() ? Fault::empty : Fault::junk);
    if (flag != nullptr && value) *flag = true;
  }

  // Sets `flag` to whether the value is words[true_word]; refuses a value that is not in `words`.
  void set_word(const Setting& setting, std::span<const std::string_view> words, bool& flag, std::size_t true_word) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (same_ignoring_case(setting.value, words[i])) {
        flag = i == true_word;
        return;
      }
    }
    refuse(setting, setting.value.empty() ? Fault::empty : Fault::junk);
  }

  void check(const Setting& setting) {
    static constexpr std::string_view kPriority[] = {"0", "1"};
    bool unused = false;
    if (setting.row->syntax == Syntax::flag) set_flag(setting, nullptr);
    else if (setting.row->syntax == Syntax::priority) set_word(setting, kPriority, unused, 1);
    else if (setting.row->syntax != Syntax::anything) set_text(setting, nullptr);
  }

  void apply(const Setting& setting) {
    static constexpr std::string_view kFail[] = {"open", "closed"};
    static constexpr std::string_view kPolicy[] = {"default", "force", "disable"};
    Grant& grant = reading_.grant;
    switch (setting.row->meaning) {
      case Meaning::memory: return grant_memory(setting);
      case Meaning::host_memory: return grant_host_memory(setting);
      case Meaning::ceiling: return grant_compute(setting, kCeiling, &DeviceGrant::ceiling_ppm);
      case Meaning::soft: return grant_compute(setting, kSoft, &DeviceGrant::soft_ppm);
      case Meaning::oversubscribe: return grant_oversubscription(setting);
      case Meaning::gpu: return grant.asks = true, set_text(setting, &Grant::gpu);
      case Meaning::share: return grant.asks = true, set_text(setting, &Grant::share);
      case Meaning::share_dir: return grant.asks = true, set_text(setting, &Grant::share_dir);
      case Meaning::log: return set_log(setting);
      case Meaning::fail_policy: return set_word(setting, kFail, grant.fail_closed, 1);
      case Meaning::compute_policy: return set_word(setting, kPolicy, grant.compute_off, 2);
      case Meaning::opt_out: return set_flag(setting, &grant.opted_out);
      case Meaning::checked: return check(setting);
      case Meaning::uuid_list:
      case Meaning::uuid_at: return;  // read in the first pass
    }
  }

  std::span<const std::string_view> visible_, present_;
  Reading reading_;
  std::uint32_t rank_[kMaxDevices][kFields];
  std::uint32_t log_rank_ = kUnset;
  std::uint32_t list_rank_ = kUnset;
  std::string_view listed_[kMaxDevices];
  bool pinned_[kMaxDevices] = {};  // set by MANAGER_VISIBLE_DEVICE_<i>, which takes precedence over the lists
  bool has_list_ = false;
};

Refusal refusal_of(const char* written, Fault fault) {
  const std::string_view entry(written);
  const std::size_t equals = position(entry, '=');
  const Setting setting = known(first(entry, equals), from(entry, equals + 1));
  return {fault, setting.name, setting.value, accepted(setting.row->syntax)};
}

}  // namespace

Refusal resolve_flops(DeviceGrant& device, std::string_view model) {
  if (device.ceiling_megaflops == 0) return {};
  const std::uint64_t card = gflops_of(model) * 1'000ull;
  if (card == 0) return refusal_of(device.ceiling_entry, Fault::unknown_card);
  if (device.ceiling_megaflops > card) return refusal_of(device.ceiling_entry, Fault::out_of_range);
  const std::uint64_t ppm = device.ceiling_megaflops * kWholePpm / card;
  if (ppm == 0) return refusal_of(device.ceiling_entry, Fault::zero);
  device.ceiling_ppm = static_cast<std::uint32_t>(ppm);
  device.ceiling_megaflops = 0;
  if (device.soft_ppm <= device.ceiling_ppm) device.soft_ppm = 0;
  return {};
}

Refusal check_burst(const DeviceGrant& device) {
  const bool hard = device.ceiling_ppm != 0 || device.ceiling_megaflops != 0;
  return device.soft_ppm == 0 || hard ? Refusal{} : refusal_of(device.soft_entry, Fault::without_hard);
}

MemorySplit split_memory(const DeviceGrant& device, std::uint64_t card_bytes) {
  const std::uint64_t limit = device.memory.on(card_bytes);
  std::uint64_t on_card = limit;
  if (device.oversubscribe_ppm > kWholePpm)
    on_card = limit / device.oversubscribe_ppm * kWholePpm +
              limit % device.oversubscribe_ppm * kWholePpm / device.oversubscribe_ppm;
  if (device.oversubscribe_ppm != 0 && card_bytes != 0 && on_card > card_bytes) on_card = card_bytes;
  return {on_card, limit - on_card};
}

Refusal check_memory(const DeviceGrant& device, std::uint64_t card_bytes) {
  const std::uint64_t bytes = device.memory.on(card_bytes);
  Fault fault = Fault::none;
  if (device.memory.said() && bytes == 0) fault = Fault::zero;
  if (card_bytes != 0 && bytes > card_bytes && device.oversubscribe_ppm == 0) fault = Fault::over_card;
  if (fault == Fault::none) return {};
  Refusal refusal = refusal_of(device.memory_entry, fault);
  if (fault == Fault::over_card) refusal.card_bytes = card_bytes;
  return refusal;
}

Reading read_environment(const char* const* envp, std::span<const std::string_view> visible_uuids,
                         std::span<const std::string_view> present) {
  return Reader(visible_uuids, present).read(envp);
}

std::size_t describe(const Refusal& refusal, std::span<char> out) {
  bare::Text text(out);
  constexpr std::size_t kShown = 80;
  text.add_printable(refusal.variable).add("='").add_printable(first(refusal.value, kShown));
  text.add(refusal.value.size() > kShown ? "...' " : "' ").add(describe(refusal.fault));
  text.add("; accepted: ").add(refusal.accepted);
  if (refusal.card_bytes != 0) text.add("; at most ").add_decimal(refusal.card_bytes >> 20).add("m");
  return text.size();
}

bool is_share_name(std::string_view text) {
  if (text.empty() || text.size() > 63 || text[0] == '.' || text[0] == '-') return false;
  for (const char c : text) {
    const bool letter = lower(c) >= 'a' && lower(c) <= 'z';
    if (!letter && !is_digit(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

}  // namespace headgate::grant
