#include "power/permission.hpp"

#include <algorithm>

namespace headgate::power {
namespace {

bool is_writer(const Writer& writer, const ShareOwner& owner) {
  if (writer.uid) return *writer.uid == owner.uid;
  return !writer.user.empty() && writer.user == owner.user;
}

bool is_for(const Grant& grant, const Writer& writer) {
  const auto has = [](const auto& list, const auto& one) { return std::ranges::find(list, one) != list.end(); };
  if (!writer.uid) return !writer.user.empty() && has(grant.users, writer.user);
  return has(grant.uids, *writer.uid) ||
         std::ranges::any_of(writer.gids, [&](std::uint32_t gid) { return has(grant.gids, gid); });
}

bool is_of(const Grant& grant, const GpuUse& gpu) {
  return grant.gpus.empty() || std::ranges::any_of(grant.gpus, [&](const std::string& one) {
           return one == std::to_string(gpu.index) || one == gpu.uuid;
         });
}

std::string mhz_text(const Bounds& bounds) {
  return std::to_string(bounds.least) + " to " + std::to_string(bounds.most) + " MHz";
}

bool holds(const Bounds& bounds, ClockRange clocks) {
  return bounds.holds(clocks.min_mhz) && bounds.holds(clocks.max_mhz);
}

// Returns what the grant permits for this control; empty if nothing.
std::string accepted_by(const Grant& grant, Operation operation) {
  switch (operation) {
    case Operation::set_power_limit:
      return grant.milliwatts ? watts_text(grant.milliwatts->least) + " to " + watts_text(grant.milliwatts->most) : "";
    case Operation::set_gpu_locked_clocks: return grant.mhz ? mhz_text(*grant.mhz) : "";
    case Operation::set_mem_locked_clocks: return grant.memory_mhz ? mhz_text(*grant.memory_mhz) : "";
    default: return "";
  }
}

bool allows(const Grant& grant, const Command& command) {
  switch (command.operation) {
    case Operation::set_persistence_mode: return grant.persistence;
    case Operation::set_power_limit: return grant.milliwatts && grant.milliwatts->holds(command.power_limit_mw);
    case Operation::set_gpu_locked_clocks: return grant.mhz && holds(*grant.mhz, command.clocks);
    case Operation::set_mem_locked_clocks: return grant.memory_mhz && holds(*grant.memory_mhz, command.clocks);
    case Operation::reset_gpu_locked_clocks: return grant.mhz.has_value();
    case Operation::reset_mem_locked_clocks: return grant.memory_mhz.has_value();
    case Operation::reset_locked_clocks: return grant.mhz && grant.memory_mhz;
    default: return false;
  }
}

}  // namespace

bool owns_all(const Writer& writer, const GpuUse& gpu) {
  return !gpu.owners.empty() &&
         std::ranges::all_of(gpu.owners, [&](const ShareOwner& owner) { return is_writer(writer, owner); });
}

Result<void> may_write(const Writer& writer, const GpuUse& gpu, const Command& command, std::span<const Grant> grants) {
  if (writer.administrator || owns_all(writer, gpu)) return {};
  std::string accepted;
  for (const Grant& grant : grants) {
    if (!is_for(grant, writer) || !is_of(grant, gpu)) continue;
    if (allows(grant, command)) return {};
    const std::string range = accepted_by(grant, command.operation);
    if (!range.empty()) accepted += (accepted.empty() ? "" : ", ") + range;
  }
  const std::string what = "GPU " + std::to_string(gpu.index) + ": you may not " + describe(command);
  if (!accepted.empty()) return fail(ErrorCode::denied, what, "accepted by your grant: " + accepted);
  if (!writer.uid && writer.user.empty())
    return fail(ErrorCode::denied, what, "over TCP only with a token: see zeusd.signing_key");
  return fail(ErrorCode::denied, what,
              gpu.owners.empty() ? "you have no share on it; an administrator can add a [[power.grant]]"
                                 : "not all shares on it are yours; an administrator can add a [[power.grant]]");
}

}  // namespace headgate::power
