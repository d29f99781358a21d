#include "cli/top/state.hpp"

#include <algorithm>
#include <compare>
#include <string_view>

#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

using snapshot::Snapshot;

std::string gpu_index(const Snapshot& picture, const std::string& uuid) {
  const auto* found = find_gpu(picture, uuid);
  return found == nullptr ? "?" : std::to_string(found->index);
}

// Compares numbers by value: "GPU 2" before "GPU 10".
std::weak_ordering counted(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); };
  while (!a.empty() && !b.empty()) {
    std::size_t in_a = digits(a), in_b = digits(b);
    if (in_a > 0 && in_b > 0) {
      for (; in_a > 1 && a.front() == '0'; --in_a) a.remove_prefix(1);
      for (; in_b > 1 && b.front() == '0'; --in_b) b.remove_prefix(1);
      if (in_a != in_b) return in_a <=> in_b;  // without leading zeros, the longer number is larger
    } else {
      in_a = in_b = 1;
    }
    if (const auto order = a.substr(0, in_a) <=> b.substr(0, in_b); order != 0) return order;
    a.remove_prefix(in_a);
    b.remove_prefix(in_b);
  }
  return a.size() <=> b.size();
}

void add(std::optional<double>& sum, const std::optional<double>& value) {
  if (value) sum = sum.value_or(0) + *value;
}

TopRow share_row(const Snapshot& picture, std::size_t index, const snapshot::ShareDevice& device) {
  const auto& share = picture.shares[index];
  TopRow row;
  row.key = history_key(share.name, device.uuid);
  row.share = row.name = share.name;
  row.uuid = device.uuid;
  row.owner = share.owner;
  row.gpu = gpu_index(picture, device.uuid);
  row.level = share.level;
  row.state = state_on(picture, share, device);
  row.limit_bytes = device.memory_limit_bytes;
  row.used_bytes = device.memory_used_bytes;
  row.held_ratio = device.sm_held_ratio ? device.sm_held_ratio : device.held_ratio;  // as its ceiling is
  row.waited_ratio = device.throttled_ratio;
  row.guarantee_ratio = device.compute_guarantee_ratio;
  row.ceiling_ratio = device.compute_ceiling_ratio;
  row.refusals = device.refusals;
  row.idle_ns = share.idle_ns;
  row.processes = share.processes;
  row.colour = static_cast<int>(index);
  for (const auto& process : picture.processes)
    if (process.share == share.name && !process.where.empty()) row.where = process.where;
  return row;
}

int share_index(const Snapshot& picture, const std::string& name) {
  const auto* found = find_share(picture, name);
  return found == nullptr ? -1 : static_cast<int>(found - picture.shares.data());
}

TopRow process_row(const Snapshot& picture, const snapshot::Process& process) {
  TopRow row;
  row.process = true;
  row.pid = shown_pid(process);
  row.host_pid = process.claimed ? 0 : process.pid;
  // The PID may be the same in two containers.
  row.key = "process/" + process.share + "/" + std::to_string(process.pid) + "/" + std::to_string(row.pid) + "/" +
            process.command;
  row.share = process.share;
  row.name = process.command.empty() ? "-" : process.command;
  row.owner = process.user;
  row.where = process.where;
  row.level = process.level;
  row.state = process.freeze            ? kFrozenShortState
              : process.share.empty()   ? "no share"
              : process.finding.empty() ? ""
                                        : "bypassed";
  for (const auto& device : process.devices) {
    row.gpu += (row.gpu.empty() ? "" : ",") + gpu_index(picture, device.uuid);
    row.used_bytes += device.driver_bytes.value_or(device.ledger_bytes);
    add(row.held_ratio, device.busy_ratio);
  }
  if (process.devices.size() == 1) row.uuid = process.devices.front().uuid;
  row.processes = 1;
  row.colour = share_index(picture, process.share);
  return row;
}

TopRow gpu_row(const Snapshot& picture, const snapshot::Gpu& gpu) {
  TopRow row;
  row.key = "gpu/" + gpu.uuid;
  row.uuid = gpu.uuid;
  row.name = format_gpu(picture, gpu.uuid) + " " + short_model(gpu.model);
  row.gpu = std::to_string(gpu.index);
  row.limit_bytes = gpu.memory_total_bytes;
  row.used_bytes = gpu.memory_used_bytes;
  row.guarantee_ratio = gpu.compute_committed_ratio;
  // Counts the audit's findings; exempted processes are not alarms.
  const auto outside = std::ranges::count_if(picture.processes, [&gpu](const auto& process) {
    return process.share.empty() && !process.finding.empty() && is_on_gpu(process, gpu.uuid);
  });
  row.state = outside > 0                    ? std::to_string(outside) + " outside"
              : gpu.throttle_reasons.empty() ? "ok"
                                             : gpu.throttle_reasons.front();
  for (const auto& share : picture.shares) {
    for (const auto& device : share.devices) {
      if (device.uuid != gpu.uuid) continue;
      add(row.waited_ratio, device.throttled_ratio);
      row.refusals += device.refusals;
    }
  }
  row.held_ratio = time_ratio(picture, gpu);
  row.processes = static_cast<std::uint32_t>(
      std::ranges::count_if(picture.processes, [&gpu](const auto& process) { return is_on_gpu(process, gpu.uuid); }));
  return row;
}

std::string owner_of(const snapshot::Process& process) { return process.user.empty() ? "?" : process.user; }

TopRow user_row(const Snapshot& picture, const std::string& user) {
  TopRow row;
  row.key = "user/" + user;
  row.name = row.owner = user;
  std::size_t shares = 0;
  std::uint64_t limit_bytes = 0;
  bool unlimited = false;  // use outside shares has no limit either
  for (const auto& share : picture.shares) {
    if (share.owner != user) continue;
    row.idle_ns = shares++ == 0 ? share.idle_ns : std::min(row.idle_ns, share.idle_ns);
    for (const auto& device : share.devices) {
      limit_bytes += device.memory_limit_bytes.value_or(0);
      unlimited |= !device.memory_limit_bytes;
      row.used_bytes += device.memory_used_bytes;
      add(row.held_ratio, device.held_ratio);
      add(row.waited_ratio, device.throttled_ratio);
      row.guarantee_ratio += device.compute_guarantee_ratio;
      row.refusals += device.refusals;
    }
  }
  for (const auto& process : picture.processes) {
    if (owner_of(process) != user) continue;
    ++row.processes;
    if (!process.share.empty()) continue;
    for (const auto& device : process.devices) row.used_bytes += device.driver_bytes.value_or(0);
    unlimited = true;
  }
  if (shares > 0 && !unlimited) row.limit_bytes = limit_bytes;
  row.state = std::to_string(shares) + (shares == 1 ? " share" : " shares");
  return row;
}

// Compares as the column sorts; numeric columns are descending, because large values matter most.
std::partial_ordering by(TopSort sort, const TopRow& a, const TopRow& b) {
  switch (sort) {
    case TopSort::name: return counted(a.name, b.name);
    case TopSort::owner: return a.owner <=> b.owner;
    case TopSort::gpu: return counted(a.gpu, b.gpu);
    case TopSort::memory: return b.used_bytes <=> a.used_bytes;
    case TopSort::compute: return b.held_ratio.value_or(-1) <=> a.held_ratio.value_or(-1);
    case TopSort::waited: return b.waited_ratio.value_or(-1) <=> a.waited_ratio.value_or(-1);
    case TopSort::refusals: return b.refusals <=> a.refusals;
    case TopSort::idle: return b.idle_ns <=> a.idle_ns;
    case TopSort::state: return a.state <=> b.state;
  }
  return std::partial_ordering::equivalent;
}

bool matches(const TopRow& row, const TopState& state) {
  if (!state.user.empty() && row.owner != state.user && !row.key.starts_with("gpu/")) return false;
  if (state.filter.empty()) return true;
  return std::ranges::any_of(
      std::vector{row.name, row.owner, row.where, row.state, row.share, row.level},
      [&](const std::string& text) { return ::strcasestr(text.c_str(), state.filter.c_str()) != nullptr; });
}

struct Family {
  TopRow head;
  std::vector<TopRow> children;
};

std::vector<Family> families(const Snapshot& picture, TopView view) {
  std::vector<Family> all;
  const auto shares_where = [&picture](auto&& test) {
    std::vector<TopRow> rows;
    for (std::size_t i = 0; i < picture.shares.size(); ++i)
      for (const auto& device : picture.shares[i].devices)
        if (test(picture.shares[i], device)) rows.push_back(share_row(picture, i, device));
    return rows;
  };
  switch (view) {
    case TopView::share:
      for (auto& row : shares_where([](const auto&, const auto&) { return true; })) {
        std::vector<TopRow> children;
        for (const auto& process : picture.processes)
          if (process.share == row.share) children.push_back(process_row(picture, process));
        for (auto& child : children) child.key = row.key + "/" + child.key;
        all.push_back({std::move(row), std::move(children)});
      }
      break;
    case TopView::gpu:
      for (const auto& gpu : picture.gpus)
        all.push_back({gpu_row(picture, gpu),
                       shares_where([&gpu](const auto&, const auto& device) { return device.uuid == gpu.uuid; })});
      break;
    case TopView::user:
      for (const auto& user : users_of(picture))
        all.push_back({user_row(picture, user),
                       shares_where([&user](const auto& share, const auto&) { return share.owner == user; })});
      break;
    case TopView::process:
      for (const auto& process : picture.processes) all.push_back({process_row(picture, process), {}});
      break;
  }
  return all;
}

}  // namespace

double outside_ratio(const Snapshot& picture, const snapshot::Gpu& gpu, double held) {
  double sum = 0;
  bool untold = false;
  for (const auto& process : picture.processes) {
    if (!process.share.empty()) continue;
    for (const auto& device : process.devices) {
      if (device.uuid != gpu.uuid) continue;
      sum += device.busy_ratio.value_or(0);
      untold |= !device.busy_ratio;
    }
  }
  if (untold) sum = std::max(sum, gpu.busy_ratio.value_or(0) - held);
  return std::clamp(sum, 0.0, std::max(0.0, 1 - held));
}

std::optional<double> time_ratio(const Snapshot& picture, const snapshot::Gpu& gpu) {
  std::optional<double> held;
  for (const auto& share : picture.shares)
    for (const auto& device : share.devices)
      if (device.uuid == gpu.uuid) add(held, device.held_ratio);
  return held ? *held + outside_ratio(picture, gpu, *held) : gpu.busy_ratio;
}

std::string history_key(const std::string& share, const std::string& uuid) { return share + "/" + uuid; }

std::vector<std::string> users_of(const Snapshot& picture) {
  std::vector<std::string> users;
  for (const auto& share : picture.shares) users.push_back(share.owner);
  for (const auto& process : picture.processes) users.push_back(owner_of(process));
  std::ranges::sort(users);
  users.erase(std::ranges::unique(users).begin(), users.end());
  return users;
}

std::vector<TopRow> rows_of(const TopState& state) {
  if (!state.now) return {};
  auto all = families(*state.now, state.view);
  std::erase_if(all, [&state](const Family& family) {
    return !matches(family.head, state) &&
           std::ranges::none_of(family.children, [&](const TopRow& row) { return matches(row, state); });
  });
  std::ranges::stable_sort(all, [&state](const Family& a, const Family& b) {
    const auto order = state.reverse ? by(state.sort, b.head, a.head) : by(state.sort, a.head, b.head);
    return order < 0;
  });
  std::vector<TopRow> rows;
  for (Family& family : all) {
    rows.push_back(std::move(family.head));
    if (!state.tree) continue;
    for (TopRow& child : family.children) {
      child.depth = 1;
      rows.push_back(std::move(child));
    }
  }
  return rows;
}

std::size_t selected_row(const std::vector<TopRow>& rows, const TopState& state) {
  const auto found = std::ranges::find(rows, state.selected, &TopRow::key);
  return found == rows.end() ? 0 : static_cast<std::size_t>(found - rows.begin());
}

std::string view_word(TopView view) {
  constexpr const char* kWords[] = {"share", "gpu", "user", "process"};
  return kWords[static_cast<std::size_t>(view)];
}

std::string sort_word(TopSort sort) {
  constexpr const char* kWords[] = {"name",  "owner",    "GPU",       "memory", "GPU time",
                                    "waits", "refusals", "idle time", "state"};
  return kWords[static_cast<std::size_t>(sort)];
}

}  // namespace headgate::cli
