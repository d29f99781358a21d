#include "power/write_audit.hpp"

namespace headgate::power {
namespace {

std::string change_text(Operation operation, const std::string& from, const std::string& to) {
  std::string text(name_of(operation));
  if (from.empty() && to.empty()) return text;
  return text + ": " + (from.empty() ? "not known" : from) + " -> " + (to.empty() ? "reset" : to);
}

}  // namespace

std::optional<AuditEntry> WriteAudit::look(const Executed& executed, std::uint64_t now_ns) {
  if (!is_write(executed.command.operation)) return std::nullopt;
  AuditEntry entry{.failed = !executed.result, .gpu = executed.gpu, .caller = executed.caller, .text = {}};
  if (!executed.result) {
    entry.text = describe(executed.command) + " failed: " + executed.result.error().message;
    return entry;
  }
  entry.text = change_text(executed.command.operation, executed.from, executed.to);
  const Key key{executed.gpu, executed.command.operation, executed.caller.text};
  const auto row = rows_.find(key);
  if (row != rows_.end() && now_ns - row->second.began_ns < kWindowNs) {
    if (row->second.count++ == 0) row->second.from = executed.from;
    row->second.to = executed.to;
    return std::nullopt;
  }
  if (row == rows_.end() && rows_.size() >= kMaxRows) return entry;
  // The pending summary was not reported by due(): report it first, including this value.
  if (row != rows_.end() && row->second.count > 0)
    entry.text = change_text(executed.command.operation, row->second.from, executed.to) + " (in " +
                 std::to_string(row->second.count + 1) + " settings)";
  rows_[key] = Row{.began_ns = now_ns, .count = 0, .from = {}, .to = {}, .caller = executed.caller};
  return entry;
}

std::vector<AuditEntry> WriteAudit::due(std::uint64_t now_ns) {
  std::vector<AuditEntry> entries;
  for (auto row = rows_.begin(); row != rows_.end();) {
    if (now_ns - row->second.began_ns < kWindowNs) {
      ++row;
      continue;
    }
    const auto& [gpu, operation, caller] = row->first;
    if (row->second.count > 0)
      entries.push_back({.failed = false,
                         .gpu = gpu,
                         .caller = row->second.caller,
                         .text = change_text(operation, row->second.from, row->second.to) + " (in " +
                                 std::to_string(row->second.count) + " settings)"});
    row = rows_.erase(row);
  }
  return entries;
}

}  // namespace headgate::power
