#include "power/rapl.hpp"

#include <algorithm>
#include <condition_variable>
#include <filesystem>

#include "base/whole_file.hpp"
#include "base/whole_number.hpp"

namespace headgate::power {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "intel-rapl:";
constexpr std::size_t kMaxBytes = 4096;  // for one powercap file

std::string_view without_line_feed(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::string name_of_zone(const std::string& folder) {
  const auto file = read_whole_file(folder + "/name", kMaxBytes);
  return file ? std::string(without_line_feed(file->text)) : "";
}

Result<std::uint64_t> read_counter(const std::string& path) {
  auto number = parse_counter(TRY(read_whole_file(path, kMaxBytes)).text);
  if (!number) number.error().message = path + ": " + number.error().message;
  return number;
}

std::vector<std::string> folders_in(const std::string& path, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

Result<std::uint64_t> parse_counter(std::string_view text) {
  const std::string_view digits = without_line_feed(text);
  const auto number = whole_number<std::uint64_t>(digits);
  if (!number)
    return fail(ErrorCode::failed, "'" + std::string(digits.substr(0, 40)) + "' is not a whole number of 64 bits");
  return *number;
}

std::optional<std::uint32_t> package_number(std::string_view folder) {
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  return whole_number<std::uint32_t>(folder.substr(kPrefix.size()));
}

PowerDraw mean_power(const CpuEnergy& before, const CpuEnergy& after, std::chrono::nanoseconds elapsed) {
  const auto ns = static_cast<double>(std::max<std::int64_t>(elapsed.count(), 1));
  // uJ / ns = kW
  const auto mw = [ns](std::uint64_t from, std::uint64_t to) {
    return static_cast<std::uint64_t>(static_cast<double>(to > from ? to - from : 0) * 1e6 / ns);
  };
  PowerDraw draw{.mw = mw(before.package_uj, after.package_uj), .dram_mw = {}};
  if (before.dram_uj && after.dram_uj) draw.dram_mw = mw(*before.dram_uj, *after.dram_uj);
  return draw;
}

std::string Rapl::usual_root() {
  std::error_code ignored;
  return fs::is_directory("/zeus_sys/class/powercap/intel-rapl", ignored) ? "/zeus_sys" : "/sys";
}

Rapl::Rapl(std::string root, std::chrono::milliseconds keep_alive_gap) {
  const std::string base = root + "/class/powercap/intel-rapl";
  std::error_code error;
  for (const std::string& name : folders_in(base, error)) {
    const auto number = package_number(name);
    const std::string folder = base + "/" + name;
    if (!number || !name_of_zone(folder).starts_with("package-")) continue;
    const auto range_of = [](const std::string& zone) {
      return read_counter(zone + "/max_energy_range_uj").value_or(0);
    };
    Zones zones{.package = {folder, WrappingCounter(range_of(folder))}, .dram = {}};
    std::error_code unreadable;  // a package without sub-zones is valid
    for (const std::string& inner : folders_in(folder, unreadable)) {
      const std::string zone = folder + "/" + inner;
      if (inner.starts_with(name + ":") && name_of_zone(zone) == "dram")
        zones.dram = Zone{zone, WrappingCounter(range_of(zone))};
    }
    packages_.push_back({*number, zones.dram.has_value()});
    zones_.emplace(*number, std::move(zones));
  }
  std::ranges::sort(packages_, {}, &Package::number);
  if (error) trouble_ = "no CPU energy: " + base + ": " + error.message();
  if (!packages_.empty())
    thread_ = std::jthread([this, keep_alive_gap](const std::stop_token& stop) { keep_alive(stop, keep_alive_gap); });
}

Rapl::~Rapl() = default;

Result<std::uint64_t> Rapl::add_reading(Zone& zone) {
  return zone.counter.add(TRY(read_counter(zone.folder + "/energy_uj")));
}

Result<CpuEnergy> Rapl::energy(std::uint32_t package) {
  const std::lock_guard lock(mutex_);
  const auto found = zones_.find(package);
  if (found == zones_.end())
    return fail(ErrorCode::not_found, "CPU " + std::to_string(package) + " not found", "GET /discover lists them");
  CpuEnergy energy{.package_uj = TRY(add_reading(found->second.package)), .dram_uj = {}};
  if (found->second.dram) {
    if (auto dram = add_reading(*found->second.dram)) energy.dram_uj = *dram;
  }
  return energy;
}

void Rapl::keep_alive(const std::stop_token& stop, std::chrono::milliseconds gap) {
  std::mutex waiting;
  std::condition_variable_any wake;
  std::unique_lock lock(waiting);
  while (!wake.wait_for(lock, stop, gap, [&stop] { return stop.stop_requested(); })) {
    for (const Package& package : packages_) (void)energy(package.number);  // a failing read is the caller's to report
  }
}

}  // namespace headgate::power
