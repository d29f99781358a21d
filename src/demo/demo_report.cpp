#include "demo/demo_report.hpp"

#include <cmath>

#include "base/units.hpp"
#include "cli/top/picture.hpp"
#include "cli/view/names.hpp"
#include "demo/tenants.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

std::string seconds(double s) { return decimal_text(s, 1) + " s"; }
std::string percent(double value) { return decimal_text(value, 2) + " %"; }
std::string whole_percent(double value) { return decimal_text(value, 0) + " %"; }
std::string milliseconds_text(double ms) { return decimal_text(ms, 1) + " ms"; }

const snapshot::ShareDevice* device_of(const snapshot::Snapshot& snapshot, const std::string& share) {
  const auto* found = find_share(snapshot, share);
  return found == nullptr || found->devices.empty() ? nullptr : &found->devices.front();
}

std::string refused(const snapshot::ShareDevice& device) {
  const auto& last = device.last_refusal;
  return "refused " + (last ? bytes_text(last->asked_bytes) + " at " + bytes_text(last->used_bytes) : "memory");
}

}  // namespace

std::string demo_story(const DemoTenant& tenant, const DemoProgress& progress, const snapshot::Snapshot& snapshot) {
  if (!progress.started) return "comes at " + std::to_string(static_cast<int>(std::lround(tenant.starts_at_s))) + " s";
  const snapshot::ShareDevice* device = device_of(snapshot, tenant.name);
  if (device == nullptr) return "";
  const std::string used = bytes_text(device->memory_used_bytes);
  switch (tenant.role) {
    case DemoRole::trainer:
      return "held to " + std::to_string(tenant.ceiling_percent) + "% of the GPU: has " +
             ratio_text(device->held_ratio);
    case DemoRole::server:
      // It has less than promised because it asks for less, so its demand is shown too.
      return "wants " + std::to_string(kDemoServerWantsPercent) + "%, has " + ratio_text(device->held_ratio) + "; " +
             std::to_string(tenant.compute_percent) + "% promised";
    case DemoRole::notebook: return progress.told_after_s ? "keeps its memory, reported idle" : "keeps its memory";
    case DemoRole::leaker:
      return device->refusals > 0 ? refused(*device) + ", told"
                                  : "has " + used + " of " + bytes_text(tenant.limit_bytes);
    case DemoRole::over_asker: return device->refusals > 0 ? refused(*device) + ", told" : "";
    case DemoRole::bypasser:
      return progress.told_after_s ? "in no share: named after " + seconds(*progress.told_after_s)
             : progress.ended      ? "was not named"
                                   : "the audit finds what is in no share";
  }
  return "";
}

DemoVerdict demo_verdict(const DemoMeasured& m) {
  DemoVerdict verdict{.tenant = m.name};
  const std::string limit = bytes_text(m.limit_bytes);
  const bool memory = m.peak_bytes == m.takes_bytes && m.peak_bytes <= m.limit_bytes;
  switch (m.role) {
    case DemoRole::trainer:
      verdict.promised = whole_percent(m.promised_percent) + ", " + limit;
      verdict.measured = percent(m.held_percent) + ", " + bytes_text(m.peak_bytes) + " at most";
      verdict.kept = memory && std::abs(m.held_percent - m.promised_percent) <= kDemoPoints;
      break;
    case DemoRole::server:
      verdict.promised = "never over " + whole_percent(m.ceiling_percent);
      verdict.measured = percent(m.held_percent) + ", requests p50 " + milliseconds_text(m.request_p50_ms) + " p99 " +
                         milliseconds_text(m.request_p99_ms);
      verdict.kept = memory && m.held_percent > 0 && m.held_percent <= m.ceiling_percent + kDemoPoints;
      break;
    case DemoRole::notebook:
      verdict.promised = limit + ", told idle";
      verdict.measured = "kept " + bytes_text(m.peak_bytes) + ", " +
                         (m.told_after_s ? "told after " + seconds(*m.told_after_s) : "never told");
      verdict.kept = memory && m.told_after_s.has_value();
      break;
    case DemoRole::leaker:
      verdict.promised = "never over " + limit;
      verdict.measured = m.grow_refused ? "refused at " + bytes_text(m.peak_bytes) : "not refused";
      verdict.kept = m.grow_refused && m.refusals > 0 && m.grown_bytes > 0 && m.peak_bytes <= m.limit_bytes &&
                     m.peak_bytes == m.takes_bytes + m.grown_bytes;
      break;
    case DemoRole::over_asker:
      verdict.promised = "never over " + limit;
      verdict.measured = bytes_text(m.asked_bytes) + " refused, " + bytes_text(m.given_bytes) + " of it given";
      verdict.kept = memory && m.given_bytes == 0 && m.refusals > 0;
      break;
    case DemoRole::bypasser:
      verdict.promised = "named by the audit";
      verdict.measured = m.told_after_s
                             ? "named after " + seconds(*m.told_after_s) + ", holds " + bytes_text(m.peak_bytes)
                             : "never named";
      verdict.kept = m.told_after_s.has_value();
      break;
  }
  if (!memory && m.role != DemoRole::leaker && m.role != DemoRole::bypasser)
    verdict.measured += "; held " + bytes_text(m.peak_bytes) + ", took " + bytes_text(m.takes_bytes);
  return verdict;
}

}  // namespace headgate::demo
