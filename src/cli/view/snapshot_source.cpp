// Snapshots and events: from the daemon over its control socket, or without one of the driver and this user's shares.
#include "cli/view/snapshot_source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/now.hpp"
#include "base/saturating_math.hpp"
#include "base/user_name.hpp"
#include "cli/share/daemon.hpp"
#include "cli/view/own_ledgers.hpp"
#include "guest/ledger/slot.hpp"
#include "http/client.hpp"
#include "http/codec.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"
#include "nvml/library.hpp"
#include "observe/gpus.hpp"
#include "observe/join.hpp"
#include "observe/pid_space.hpp"
#include "observe/recent.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

// Returns a visible process's facts; nothing if it is gone or /proc is missing.
std::optional<observe::ProcessFacts> facts_of(std::uint32_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  struct stat owner{};
  if (::stat(directory.c_str(), &owner) != 0) return std::nullopt;
  observe::ProcessFacts facts{
      .uid = owner.st_uid, .user = user_name(owner.st_uid), .command = {}, .where = {}, .program = {}};
  std::ifstream in(directory + "/comm");
  std::getline(in, facts.command);
  return facts;
}

// Memory of ended processes stays in their share's account until a limiter or daemon sees it freed; without either, for
// seconds. Here, draining memory that does not fit into the driver's used memory counts as freed.
void leave_out_torn_down(observe::JoinInput& input) {
  for (const snapshot::Gpu& gpu : input.driver.gpus) {
    if (gpu.uuid.empty() || gpu.memory_total_bytes == 0) continue;
    std::uint64_t held = 0, draining = 0;
    std::vector<snapshot::ShareDevice*> devices;
    for (auto& ledger : input.ledgers) {
      for (auto& device : ledger.share.devices) {
        if (device.uuid != gpu.uuid) continue;
        held = saturating_add(held, saturating_sub(device.memory_used_bytes, device.memory_draining_bytes));
        draining = saturating_add(draining, device.memory_draining_bytes);
        devices.push_back(&device);
      }
    }
    std::uint64_t gone = saturating_sub(draining, saturating_sub(gpu.memory_used_bytes, held));
    for (snapshot::ShareDevice* device : devices) {
      const std::uint64_t off = std::min({gone, device->memory_draining_bytes, device->memory_used_bytes});
      device->memory_draining_bytes -= off;
      device->memory_used_bytes -= off;
      gone -= off;
    }
  }
}

// Adds the ledgers; returns the shares that cannot be read.
std::vector<snapshot::Share> add_ledgers(const std::string& base, observe::JoinInput& input) {
  const std::uint32_t own_pidns = ledger::own_identity().pidns_inode;
  OwnLedgers own = read_own_ledgers(base);
  input.ledgers = std::move(own.list);
  for (const auto& ledger : input.ledgers) {
    auto& host_pids = input.host_pids.emplace_back();
    for (const auto& seat : ledger.seats) {
      const bool ours = seat.identity.pidns_inode == 0 || seat.identity.pidns_inode == own_pidns;
      host_pids.push_back(ours ? seat.identity.pid : 0);
    }
  }
  return std::move(own.broken);
}

void add_facts(observe::JoinInput& input) {
  const auto add = [&input](std::uint32_t pid) {
    if (pid == 0 || input.facts.contains(pid)) return;
    if (auto facts = facts_of(pid)) input.facts.emplace(pid, std::move(*facts));
  };
  for (const auto& pids : input.host_pids)
    for (const std::uint32_t pid : pids) add(pid);
  for (const auto& process : input.driver.processes) add(process.pid);
}

class LocalSource final : public SnapshotSource {
 public:
  LocalSource(std::string base, install::Source source, std::optional<install::Source> instead)
      : base_(std::move(base)), source_(std::move(source)), instead_(std::move(instead)) {}

  [[nodiscard]] bool is_daemon() const override { return false; }
  [[nodiscard]] std::string remark() const override { return remark_; }

  Result<snapshot::Snapshot> look() override {
    observe::JoinInput input;
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) input.node.name = host.data();
    input.node.pid_space = observe::own_pid_space();
    read_gpus_into(input);
    auto broken = add_ledgers(base_, input);
    leave_out_torn_down(input);
    add_facts(input);
    input.taken_ns = steady_now_ns();
    input.taken_unix_ns = unix_now_ns();
    auto snapshot = observe::join(input, recent_);
    snapshot.shares.insert(snapshot.shares.end(), std::move_iterator(broken.begin()), std::move_iterator(broken.end()));
    std::ranges::sort(snapshot.shares, {}, &snapshot::Share::name);
    const snapshot::Snapshot* before = recent_.last();
    const auto fresh = before != nullptr ? changes(*before, snapshot, last_sequence_) : remembered(snapshot);
    for (const auto& event : fresh) {
      last_sequence_ = event.sequence;
      events_.push_back(event);
    }
    if (events_.size() > kMaxEvents) events_.erase(events_.begin(), events_.end() - kMaxEvents);
    recent_.add(std::make_shared<snapshot::Snapshot>(snapshot));
    return snapshot;
  }

  Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) override {
    auto later = events_;
    std::erase_if(later, [sequence](const auto& event) { return event.sequence <= sequence; });
    return later;
  }

 private:
  static constexpr std::ptrdiff_t kMaxEvents = 500;

  void read_gpus_into(observe::JoinInput& input) {
    if (!nvml_) open_driver();
    if (!nvml_) return;
    input.node.simulated = simulated_;
    const snapshot::Snapshot* since = recent_.second_ago(steady_now_ns());
    if (auto driver = observe::read_driver(*nvml_, since == nullptr ? 0 : since->taken_unix_ns / 1000)) {
      input.driver = std::move(*driver);
    } else {
      remark_ = driver.error().message;
      nvml_.reset();  // the driver went away; reopened at the next snapshot
    }
  }

  void open_driver() {
    remark_.clear();
    auto opened = nvml::Library::open(source_.library);
    if (!opened && instead_) opened = nvml::Library::open(instead_->library);
    if (!opened) {
      remark_ = opened.error().message;
      return;
    }
    simulated_ = opened->path().ends_with("/sim/libnvidia-ml.so.1");
    nvml_.emplace(std::move(*opened));
  }

  const std::string base_;
  const install::Source source_;
  const std::optional<install::Source> instead_;
  std::optional<nvml::Library> nvml_;
  bool simulated_ = false;
  std::string remark_;
  observe::RecentSnapshots recent_;
  std::vector<snapshot::Event> events_;
  std::uint64_t last_sequence_ = 0;
};

constexpr std::chrono::milliseconds kPatience(2000);
constexpr std::chrono::milliseconds kReading(10'000);  // the daemon may read from disk
constexpr std::size_t kAnswerPage = 4096;              // events per reply of the daemon

class DaemonSource final : public SnapshotSource {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  [[nodiscard]] bool is_daemon() const override { return true; }

  Result<snapshot::Snapshot> look() override {
    return snapshot::from_json<snapshot::Snapshot>(TRY(ask(daemon_, "GET", "/v1/snapshot", "", kPatience)));
  }

  Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) override {
    return snapshot::from_json<std::vector<snapshot::Event>>(
        TRY(ask(daemon_, "GET", "/v1/events?after=" + std::to_string(sequence), "", kPatience)));
  }

  // Pages through the daemon's replies.
  Result<std::vector<snapshot::Event>> events_that(const EventChoice& choice) override {
    std::string target = "/v1/events?since_unix_ns=" + std::to_string(choice.since_unix_ns);
    if (!choice.share.empty()) target += "&share=" + http::escape(choice.share);
    if (!choice.kind.empty()) target += "&kind=" + http::escape(choice.kind);
    std::vector<snapshot::Event> all;
    for (std::size_t before = 0;; before = all.size()) {
      const std::string after = all.empty() ? "" : "&after=" + std::to_string(all.back().sequence);
      const std::string body = TRY(ask(daemon_, "GET", target + after, "", kReading));
      for (auto& event : TRY(snapshot::from_json<std::vector<snapshot::Event>>(body)))
        if (choice.fits(event)) all.push_back(std::move(event));
      if (all.size() - before < kAnswerPage) return all;
    }
  }

 private:
  const http::Endpoint daemon_;
};

}  // namespace

Result<std::unique_ptr<SnapshotSource>> local_source(const std::optional<std::string>& simulate,
                                                     const std::string& usual_profile,
                                                     const std::optional<std::string>& runtime_dir) {
  const std::string base = runtime_dir ? *runtime_dir : TRY(install::runtime_dir());
  const install::Source source = TRY(install::source_for(simulate, usual_profile));
  std::optional<install::Source> instead;
  if (!simulate) {
    std::vector<std::string> uuids;
    for (const auto& ledger : read_own_ledgers(base).list)
      for (const auto& device : ledger.share.devices) uuids.push_back(device.uuid);
    instead = install::simulated_source_with(uuids);
    std::error_code ignored;
    if (const auto usual = install::sim_directory(""); !instead && usual && fs::exists(*usual + "/node", ignored))
      if (auto simulated = install::source_for("", usual_profile)) instead = std::move(*simulated);
  }
  // Set here, before snapshots are taken on another thread: setenv is not thread-safe.
  const std::string& directory = instead ? instead->simulated_directory : source.simulated_directory;
  if (!directory.empty()) ::setenv("HEADGATE_SIM_DIR", directory.c_str(), 1);
  return std::make_unique<LocalSource>(base, source, instead);
}

std::unique_ptr<SnapshotSource> daemon_source(const http::Endpoint& daemon) {
  return std::make_unique<DaemonSource>(daemon);
}

Result<void> follow_events(const http::Endpoint& daemon, std::uint64_t sequence,
                           const std::function<bool(const snapshot::Event&)>& each) {
  // The daemon sends a heartbeat every second; after ten silent seconds it counts as gone.
  constexpr auto kSilence = std::chrono::seconds(10);
  auto source = TRY(
      http::EventSource::open(daemon, {.target = "/v1/events?follow=1&after=" + std::to_string(sequence)}, kPatience));
  for (;;) {
    const auto told = TRY(source.next(kSilence));
    if (!told) return {};
    if (!each(TRY(snapshot::from_json<snapshot::Event>(told->data)))) return {};
  }
}

}  // namespace headgate::cli
