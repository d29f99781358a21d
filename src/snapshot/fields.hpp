// The fields of each snapshot struct, listed once; writer, reader and schema are derived from these lists.
#pragma once

#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// Visits the first name, then scans itself again for the others: HEADGATE_RESCAN does that 64 times.
#define HEADGATE_VISIT(name, ...) \
  visit(#name, of.name);          \
  __VA_OPT__(HEADGATE_VISIT_NEXT HEADGATE_NO_ARGUMENTS(__VA_ARGS__))
#define HEADGATE_VISIT_NEXT() HEADGATE_VISIT
#define HEADGATE_NO_ARGUMENTS ()
#define HEADGATE_RESCAN(...) HEADGATE_RESCAN16(HEADGATE_RESCAN16(HEADGATE_RESCAN16(HEADGATE_RESCAN16(__VA_ARGS__))))
#define HEADGATE_RESCAN16(...) HEADGATE_RESCAN4(HEADGATE_RESCAN4(HEADGATE_RESCAN4(HEADGATE_RESCAN4(__VA_ARGS__))))
#define HEADGATE_RESCAN4(...) HEADGATE_RESCAN1(HEADGATE_RESCAN1(HEADGATE_RESCAN1(HEADGATE_RESCAN1(__VA_ARGS__))))
#define HEADGATE_RESCAN1(...) __VA_ARGS__

// Defines each_field(of, visit), which calls visit(name, value) for each field in output order, and name_of().
#define HEADGATE_FIELDS(Struct, ...)             \
  template <typename Visit>                      \
  void each_field(Struct& of, Visit&& visit) {   \
    HEADGATE_RESCAN(HEADGATE_VISIT(__VA_ARGS__)) \
  }                                              \
  constexpr const char* name_of(const Struct*) { return #Struct; }

HEADGATE_FIELDS(Node, name, version, driver_version, simulated, level, gpus, shares, processes, unattended_processes,
                started_unix_ns, reserve_bytes, pid_space, nvml_released)
HEADGATE_FIELDS(XidCount, xid, count)
HEADGATE_FIELDS(MigInstance, uuid, profile, gpu_instance, compute_instance, memory_total_bytes, memory_used_bytes)
HEADGATE_FIELDS(Gpu, uuid, index, model, pci_bus_id, memory_total_bytes, memory_used_bytes, memory_free_bytes,
                memory_reserved_bytes, memory_committed_bytes, memory_shares_bytes, memory_unattributed_bytes,
                unlimited_shares, compute_committed_ratio, memory_uncommitted_bytes, compute_uncommitted_ratio,
                busy_ratio, memory_busy_ratio, encoder_busy_ratio, decoder_busy_ratio, sm_active_ratio,
                temperature_celsius, power_mw, power_limit_mw, power_limit_requested_mw, power_limit_min_mw,
                power_limit_max_mw, power_limit_default_mw, persistence, sm_clock_mhz, memory_clock_mhz, energy_mj,
                throttle_reasons, ecc_corrected_errors, ecc_uncorrected_errors, ecc_lifetime_corrected_errors,
                ecc_lifetime_uncorrected_errors, xids, pcie_generation, pcie_width, pcie_replays,
                pcie_rx_bytes_per_second, pcie_tx_bytes_per_second, nvlinks_active, nvlink_errors, nvlink_rx_bytes,
                nvlink_tx_bytes, mig, mig_instances, ecc, half_precision_tflops, compute_mode, policy, policy_from,
                waiting, policy_in_force, mps_clients)
HEADGATE_FIELDS(Refusal, asked_bytes, used_bytes, limit_bytes, unix_ns, pid, reason)
HEADGATE_FIELDS(LaunchDelay, up_to_ns, launches)
HEADGATE_FIELDS(HookErrors, api, count)
HEADGATE_FIELDS(ShareDevice, uuid, memory_limit_bytes, memory_used_bytes, memory_residual_bytes, memory_draining_bytes,
                memory_peak_bytes, memory_frozen_bytes, context_bytes, host_limit_bytes, host_used_bytes,
                driver_limit_bytes, driver_used_bytes, refusals, refusals_device_full, refusals_policy, last_refusal,
                compute_ceiling_ratio, compute_burst_ratio, compute_guarantee_ratio, weight, priority_class, metered,
                held_ns, estimated_ns, neighbours_ns, copy_ns, throttled_ns, throttled_launches, passed_in_debt,
                launches, launch_delays, hook_errors, last_throttle_unix_ns, waiting_ns, waited_pause_ns,
                waited_turn_ns, waited_ceiling_ns, waited_work_ns, held_ratio, throttled_ratio, limit_wait_ratio,
                turn_wait_ratio, work_wait_ratio, had_ratio, wanted_ratio, short_ratio, short_ns, short_cause, sm_ratio,
                sm_held_ratio, waits_for)
HEADGATE_FIELDS(Share, name, owner_uid, owner, state, level, fail_policy, admit, on_oom, problem, gang, isolation,
                mps_users, created, created_unix_ns, idle_ns, ttl_ns, expired, freeze_after_ns, idle_notice_ns,
                overcommit, oversubscribe, everyone, users, groups, uids, gids, processes, cdi_file, cdi_problem,
                driver_problem, frozen_processes, freezes, thaws, devices)
HEADGATE_FIELDS(ProcessDevice, uuid, driver_bytes, ledger_bytes, busy_ratio, mps, unexplained_bytes)
HEADGATE_FIELDS(Freeze, cgroup, thaw)
HEADGATE_FIELDS(Process, pid, pid_in_share, share, uid, user, command, where, level, claimed, finding, freeze, devices)
HEADGATE_FIELDS(Event, sequence, unix_ns, kind, severity, share, uuid, pid, uid, owner_uid, text)
HEADGATE_FIELDS(Waiting, place, share, owner_uid, owner, uuids, memory_limit_bytes, compute_guarantee_ratio, waited_ns,
                reason)
HEADGATE_FIELDS(Snapshot, taken_unix_ns, taken_ns, node, gpus, shares, processes, waiting)

}  // namespace headgate::snapshot
