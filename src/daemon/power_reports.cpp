#include "daemon/power_reports.hpp"

#include <cstdio>
#include <optional>
#include <vector>

#include "base/now.hpp"
#include "base/utf8.hpp"
#include "daemon/journal.hpp"

namespace headgate::daemon {
namespace {

void log_power(JournalLevel level, const std::string& text) { journal(level, "power: " + text); }

}  // namespace

void PowerReports::lease(const power::LeaseNews& news) const {
  log_power(news.trouble ? JournalLevel::warning : JournalLevel::info, news.text);
  events_.add(
      {.kind = "power.lease", .severity = news.trouble ? "warn" : "info", .uid = news.owner_uid, .text = news.text});
}

void PowerReports::damaged_leases(const std::string& why, const std::string& aside) const {
  const std::string text = "the leases of an earlier daemon cannot be read (" + why +
                           "): the settings that they made stay; the file is kept as " + aside;
  log_power(JournalLevel::error, text);
  events_.add({.kind = "power.leases_damaged", .severity = "error", .text = text});
}

void PowerReports::site(const Result<void>& done) const {
  const std::string text = done ? "the site's settings (power.at_start) are in force" : done.error().message;
  log_power(done ? JournalLevel::info : JournalLevel::warning, text);
  events_.add({.kind = "power.site", .severity = done ? "info" : "warn", .text = text});
}

void PowerReports::executed(const power::Executed& done, power::ControlQueues& queues) {
  if (!done.caller.quiet || power::is_write(done.command.operation)) log_executed("headgated", done);
  std::optional<power::AuditEntry> entry;
  {
    const std::lock_guard lock(mutex_);
    entry = audit_.look(done, steady_now_ns());
  }
  if (entry) tell(*entry, queues);
  warn_if_forgotten(done, queues);
}

// Without persistence mode the driver unloads with its last client and forgets the setting. Warns once for each GPU,
// until the mode is on.
void PowerReports::warn_if_forgotten(const power::Executed& done, power::ControlQueues& queues) {
  if (!done.result || !power::is_write(done.command.operation)) return;
  const auto mode = queues.gpu(done.gpu).read(power::Operation::get_persistence_mode);
  const bool forgets = mode && *mode == 0 && done.command.operation != power::Operation::set_persistence_mode;
  const std::lock_guard lock(mutex_);
  if (forgets == forgetful_.contains(done.gpu)) return;
  if (!forgets) {
    if (mode && *mode != 0) forgetful_.erase(done.gpu);
    return;
  }
  forgetful_.insert(done.gpu);
  const power::GpuIdentity& gpu = queues.gpu(done.gpu).identity();
  events_.add({.kind = "power.forgotten",
               .severity = "warn",
               .uuid = gpu.uuid,
               .text = "GPU " + std::to_string(done.gpu) + " (" + gpu.name +
                       ") is not in persistence mode: the driver forgets its settings when its last program ends"});
}

void PowerReports::tell(const power::AuditEntry& entry, power::ControlQueues& queues) const {
  const power::GpuIdentity& gpu = queues.gpu(entry.gpu).identity();
  events_.add(
      {.kind = entry.failed ? "power.failed" : "power.set",
       .severity = entry.failed ? "warn" : "info",
       .uuid = gpu.uuid,
       .uid = entry.caller.uid.value_or(~0u),
       .text = "GPU " + std::to_string(entry.gpu) + " (" + gpu.name + ") " + entry.text + ", by " + entry.caller.text});
}

void PowerReports::tick(power::ControlQueues& queues) {
  std::vector<power::AuditEntry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = audit_.due(steady_now_ns());
  }
  for (const power::AuditEntry& entry : entries) tell(entry, queues);
}

void log_executed(const char* program, const power::Executed& done) {
  const std::string change = done.from.empty() && done.to.empty() ? "" : ": " + done.from + " -> " + done.to;
  const std::string merged =
      done.superseded == 0 ? "" : ", replaced " + std::to_string(done.superseded) + " earlier commands";
  const std::string text = "request " + std::to_string(done.request) + " of " + printable(done.caller.text) + ": GPU " +
                           std::to_string(done.gpu) + " " + power::describe(done.command) +
                           (done.result ? change : " FAILED: " + done.result.error().message) + " (done in " +
                           std::to_string(done.done_ns / 1000) + " us, own part " +
                           std::to_string(done.overhead_ns / 1000) + " us" + merged + ")";
  std::fprintf(stderr, "%s: %s\n", program, text.c_str());
}

}  // namespace headgate::daemon
