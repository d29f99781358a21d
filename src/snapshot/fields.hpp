// The fields of each snapshot struct, listed once; writer, reader and schema are derived from these lists.
#pragma once

#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// Calls visit(name, value) for each field, in output order.
template <typename Visit>
void each_field(Node& n, Visit&& visit) {
  visit("name", n.name);
  visit("version", n.version);
  visit("driver_version", n.driver_version);
  visit("simulated", n.simulated);
  visit("level", n.level);
  visit("gpus", n.gpus);
  visit("shares", n.shares);
  visit("processes", n.processes);
  visit("unattended_processes", n.unattended_processes);
  visit("started_unix_ns", n.started_unix_ns);
  visit("reserve_bytes", n.reserve_bytes);
  visit("pid_space", n.pid_space);
  visit("nvml_released", n.nvml_released);
}

template <typename Visit>
void each_field(XidCount& x, Visit&& visit) {
  visit("xid", x.xid);
  visit("count", x.count);
}

template <typename Visit>
void each_field(MigInstance& m, Visit&& visit) {
  visit("uuid", m.uuid);
  visit("profile", m.profile);
  visit("gpu_instance", m.gpu_instance);
  visit("compute_instance", m.compute_instance);
  visit("memory_total_bytes", m.memory_total_bytes);
  visit("memory_used_bytes", m.memory_used_bytes);
}

template <typename Visit>
void each_field(Gpu& g, Visit&& visit) {
  visit("uuid", g.uuid);
  visit("index", g.index);
  visit("model", g.model);
  visit("pci_bus_id", g.pci_bus_id);
  visit("memory_total_bytes", g.memory_total_bytes);
  visit("memory_used_bytes", g.memory_used_bytes);
  visit("memory_free_bytes", g.memory_free_bytes);
  visit("memory_reserved_bytes", g.memory_reserved_bytes);
  visit("memory_committed_bytes", g.memory_committed_bytes);
  visit("memory_shares_bytes", g.memory_shares_bytes);
  visit("memory_unattributed_bytes", g.memory_unattributed_bytes);
  visit("unlimited_shares", g.unlimited_shares);
  visit("compute_committed_ratio", g.compute_committed_ratio);
  visit("memory_uncommitted_bytes", g.memory_uncommitted_bytes);
  visit("compute_uncommitted_ratio", g.compute_uncommitted_ratio);
  visit("busy_ratio", g.busy_ratio);
  visit("memory_busy_ratio", g.memory_busy_ratio);
  visit("encoder_busy_ratio", g.encoder_busy_ratio);
  visit("decoder_busy_ratio", g.decoder_busy_ratio);
  visit("sm_active_ratio", g.sm_active_ratio);
  visit("temperature_celsius", g.temperature_celsius);
  visit("power_mw", g.power_mw);
  visit("power_limit_mw", g.power_limit_mw);
  visit("power_limit_requested_mw", g.power_limit_requested_mw);
  visit("power_limit_min_mw", g.power_limit_min_mw);
  visit("power_limit_max_mw", g.power_limit_max_mw);
  visit("power_limit_default_mw", g.power_limit_default_mw);
  visit("persistence", g.persistence);
  visit("sm_clock_mhz", g.sm_clock_mhz);
  visit("memory_clock_mhz", g.memory_clock_mhz);
  visit("energy_mj", g.energy_mj);
  visit("throttle_reasons", g.throttle_reasons);
  visit("ecc_corrected_errors", g.ecc_corrected_errors);
  visit("ecc_uncorrected_errors", g.ecc_uncorrected_errors);
  visit("ecc_lifetime_corrected_errors", g.ecc_lifetime_corrected_errors);
  visit("ecc_lifetime_uncorrected_errors", g.ecc_lifetime_uncorrected_errors);
  visit("xids", g.xids);
  visit("pcie_generation", g.pcie_generation);
  visit("pcie_width", g.pcie_width);
  visit("pcie_replays", g.pcie_replays);
  visit("pcie_rx_bytes_per_second", g.pcie_rx_bytes_per_second);
  visit("pcie_tx_bytes_per_second", g.pcie_tx_bytes_per_second);
  visit("nvlinks_active", g.nvlinks_active);
  visit("nvlink_errors", g.nvlink_errors);
  visit("nvlink_rx_bytes", g.nvlink_rx_bytes);
  visit("nvlink_tx_bytes", g.nvlink_tx_bytes);
  visit("mig", g.mig);
  visit("mig_instances", g.mig_instances);
  visit("ecc", g.ecc);
  visit("half_precision_tflops", g.half_precision_tflops);
  visit("compute_mode", g.compute_mode);
  visit("policy", g.policy);
  visit("policy_from", g.policy_from);
  visit("waiting", g.waiting);
  visit("policy_in_force", g.policy_in_force);
  visit("mps_clients", g.mps_clients);
}

template <typename Visit>
void each_field(Refusal& r, Visit&& visit) {
  visit("asked_bytes", r.asked_bytes);
  visit("used_bytes", r.used_bytes);
  visit("limit_bytes", r.limit_bytes);
  visit("unix_ns", r.unix_ns);
  visit("pid", r.pid);
  visit("reason", r.reason);
}

template <typename Visit>
void each_field(LaunchDelay& d, Visit&& visit) {
  visit("up_to_ns", d.up_to_ns);
  visit("launches", d.launches);
}

template <typename Visit>
void each_field(HookErrors& e, Visit&& visit) {
  visit("api", e.api);
  visit("count", e.count);
}

template <typename Visit>
void each_field(ShareDevice& d, Visit&& visit) {
  visit("uuid", d.uuid);
  visit("memory_limit_bytes", d.memory_limit_bytes);
  visit("memory_used_bytes", d.memory_used_bytes);
  visit("memory_residual_bytes", d.memory_residual_bytes);
  visit("memory_draining_bytes", d.memory_draining_bytes);
  visit("memory_peak_bytes", d.memory_peak_bytes);
  visit("memory_frozen_bytes", d.memory_frozen_bytes);
  visit("context_bytes", d.context_bytes);
  visit("host_limit_bytes", d.host_limit_bytes);
  visit("host_used_bytes", d.host_used_bytes);
  visit("refusals", d.refusals);
  visit("refusals_device_full", d.refusals_device_full);
  visit("refusals_policy", d.refusals_policy);
  visit("last_refusal", d.last_refusal);
  visit("compute_ceiling_ratio", d.compute_ceiling_ratio);
  visit("compute_burst_ratio", d.compute_burst_ratio);
  visit("compute_guarantee_ratio", d.compute_guarantee_ratio);
  visit("weight", d.weight);
  visit("priority_class", d.priority_class);
  visit("metered", d.metered);
  visit("held_ns", d.held_ns);
  visit("estimated_ns", d.estimated_ns);
  visit("neighbours_ns", d.neighbours_ns);
  visit("copy_ns", d.copy_ns);
  visit("throttled_ns", d.throttled_ns);
  visit("throttled_launches", d.throttled_launches);
  visit("passed_in_debt", d.passed_in_debt);
  visit("launches", d.launches);
  visit("launch_delays", d.launch_delays);
  visit("hook_errors", d.hook_errors);
  visit("last_throttle_unix_ns", d.last_throttle_unix_ns);
  visit("waiting_ns", d.waiting_ns);
  visit("waited_pause_ns", d.waited_pause_ns);
  visit("waited_turn_ns", d.waited_turn_ns);
  visit("waited_ceiling_ns", d.waited_ceiling_ns);
  visit("waited_work_ns", d.waited_work_ns);
  visit("held_ratio", d.held_ratio);
  visit("throttled_ratio", d.throttled_ratio);
  visit("limit_wait_ratio", d.limit_wait_ratio);
  visit("turn_wait_ratio", d.turn_wait_ratio);
  visit("work_wait_ratio", d.work_wait_ratio);
  visit("had_ratio", d.had_ratio);
  visit("wanted_ratio", d.wanted_ratio);
  visit("short_ratio", d.short_ratio);
  visit("short_ns", d.short_ns);
  visit("short_cause", d.short_cause);
  visit("sm_ratio", d.sm_ratio);
  visit("sm_held_ratio", d.sm_held_ratio);
  visit("waits_for", d.waits_for);
}

template <typename Visit>
void each_field(Share& s, Visit&& visit) {
  visit("name", s.name);
  visit("owner_uid", s.owner_uid);
  visit("owner", s.owner);
  visit("state", s.state);
  visit("level", s.level);
  visit("fail_policy", s.fail_policy);
  visit("admit", s.admit);
  visit("on_oom", s.on_oom);
  visit("problem", s.problem);
  visit("gang", s.gang);
  visit("isolation", s.isolation);
  visit("created", s.created);
  visit("created_unix_ns", s.created_unix_ns);
  visit("idle_ns", s.idle_ns);
  visit("ttl_ns", s.ttl_ns);
  visit("expired", s.expired);
  visit("freeze_after_ns", s.freeze_after_ns);
  visit("idle_notice_ns", s.idle_notice_ns);
  visit("overcommit", s.overcommit);
  visit("oversubscribe", s.oversubscribe);
  visit("everyone", s.everyone);
  visit("users", s.users);
  visit("groups", s.groups);
  visit("uids", s.uids);
  visit("gids", s.gids);
  visit("processes", s.processes);
  visit("cdi_file", s.cdi_file);
  visit("cdi_problem", s.cdi_problem);
  visit("frozen_processes", s.frozen_processes);
  visit("freezes", s.freezes);
  visit("thaws", s.thaws);
  visit("devices", s.devices);
}

template <typename Visit>
void each_field(ProcessDevice& d, Visit&& visit) {
  visit("uuid", d.uuid);
  visit("driver_bytes", d.driver_bytes);
  visit("ledger_bytes", d.ledger_bytes);
  visit("busy_ratio", d.busy_ratio);
  visit("mps", d.mps);
  visit("unexplained_bytes", d.unexplained_bytes);
}

template <typename Visit>
void each_field(Freeze& h, Visit&& visit) {
  visit("cgroup", h.cgroup);
  visit("thaw", h.thaw);
}

template <typename Visit>
void each_field(Process& p, Visit&& visit) {
  visit("pid", p.pid);
  visit("pid_in_share", p.pid_in_share);
  visit("share", p.share);
  visit("uid", p.uid);
  visit("user", p.user);
  visit("command", p.command);
  visit("where", p.where);
  visit("level", p.level);
  visit("claimed", p.claimed);
  visit("finding", p.finding);
  visit("freeze", p.freeze);
  visit("devices", p.devices);
}

template <typename Visit>
void each_field(Event& e, Visit&& visit) {
  visit("sequence", e.sequence);
  visit("unix_ns", e.unix_ns);
  visit("kind", e.kind);
  visit("severity", e.severity);
  visit("share", e.share);
  visit("uuid", e.uuid);
  visit("pid", e.pid);
  visit("uid", e.uid);
  visit("owner_uid", e.owner_uid);
  visit("text", e.text);
}

template <typename Visit>
void each_field(Waiting& w, Visit&& visit) {
  visit("place", w.place);
  visit("share", w.share);
  visit("owner_uid", w.owner_uid);
  visit("owner", w.owner);
  visit("uuids", w.uuids);
  visit("memory_limit_bytes", w.memory_limit_bytes);
  visit("compute_guarantee_ratio", w.compute_guarantee_ratio);
  visit("waited_ns", w.waited_ns);
  visit("reason", w.reason);
}

template <typename Visit>
void each_field(Snapshot& s, Visit&& visit) {
  visit("taken_unix_ns", s.taken_unix_ns);
  visit("taken_ns", s.taken_ns);
  visit("node", s.node);
  visit("gpus", s.gpus);
  visit("shares", s.shares);
  visit("processes", s.processes);
  visit("waiting", s.waiting);
}

}  // namespace headgate::snapshot
