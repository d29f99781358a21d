// Description of a simulated node: one GPU model and a count. Plain bytes, so that it can be part of the node's page.
// src/config parses it from TOML.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace headgate::sim {

inline constexpr std::uint32_t kMaxDevices = 16;
inline constexpr std::uint32_t kMaxMigSlices = 7;  // per GPU, as nvmlDeviceGetMaxMigDeviceCount returns

// One MIG slice of a GPU, in units of its 7 compute slices and 8 memory slices.
struct MigSlice {
  std::uint32_t compute, memory;
  friend bool operator==(const MigSlice&, const MigSlice&) = default;
};

struct Profile {
  // Identity
  char name[32];            // "h200"
  char model[64];           // name in NVML and the driver: "NVIDIA H200"
  char driver_version[32];  // "535.261.03"
  char vbios_version[32];
  std::int32_t cuda_version;    // 1000 * major + 10 * minor
  std::uint32_t count;          // GPUs, 1..kMaxDevices
  std::uint64_t node_seed;      // UUIDs and serial numbers derive from it and the name; 0: random per node
  std::uint32_t pci_device_id;  // device << 16 | vendor, as NVML shows it
  std::uint32_t pci_subsystem_id;
  std::uint32_t pci_domain;
  std::uint32_t pci_first_bus;  // GPU i is on bus pci_first_bus + i * pci_bus_step
  std::uint32_t pci_bus_step;
  std::uint32_t nvml_architecture;  // NVML_DEVICE_ARCH_*: Ada 8, Hopper 9
  std::uint32_t nvml_brand;         // NVML_BRAND_*

  // Compute
  std::uint32_t capability_major, capability_minor;
  std::uint32_t sm_count;
  std::uint32_t cores_per_sm;
  std::uint32_t max_threads_per_sm;
  std::uint32_t max_blocks_per_sm;
  std::uint32_t max_threads_per_block;
  std::uint32_t registers_per_block;
  std::uint32_t shared_bytes_per_block;  // without opting in
  std::uint32_t shared_bytes_per_block_optin;
  std::uint32_t shared_bytes_per_sm;
  std::uint32_t copy_engines;

  // Memory
  std::uint64_t memory_bytes;    // NVML's total
  std::uint64_t reserved_bytes;  // used by firmware and driver, part of total
  std::uint64_t context_bytes;   // taken by each context of a process on a GPU
  std::uint64_t heap_bytes;      // a new context's limit of the device heap, part of context_bytes
  std::uint64_t slab_bytes;  // 2 MiB: a context's small allocations share slabs, large ones are rounded up; 0: exact
  std::uint64_t pool_granule_bytes;  // a memory pool grows by multiples of it
  std::uint64_t bar1_bytes;
  std::uint32_t memory_bus_bits;
  std::uint32_t l2_bytes;

  // Clocks, power, heat
  std::uint32_t sm_clock_idle_mhz, sm_clock_max_mhz;
  std::uint32_t memory_clock_idle_mhz, memory_clock_max_mhz;
  std::uint32_t power_idle_mw;
  std::uint32_t power_min_mw, power_default_mw, power_max_mw;  // range and default of the power limit
  std::uint32_t temperature_idle_c, temperature_full_c;        // at idle and at full power

  // Time
  std::uint64_t slice_ns;                 // of one context, if several have work
  std::uint64_t switch_ns;                // idle time between two contexts' slices; 0: none
  std::uint64_t block_ns;                 // duration of a wave of blocks if the kernel does not specify it
  std::uint64_t watchdog_ns;              // a longer kernel is ended, as on a board with a display; 0: never
  std::uint64_t teardown_ns;              // from a process's death until its memory is free
  std::uint64_t submit_ns;                // from a driver call to the earliest start of its command
  std::uint64_t host_launch_ns;           // CPU time of one launch, record or query; 0: only what the code takes
  std::uint64_t event_step_ns;            // resolution of event times
  std::int64_t clock_offset_ns;           // GPU clock minus host clock when the node was made
  std::int64_t clock_drift_ppb;           // the GPU clock's gain per billion
  std::uint64_t host_copy_bytes_per_s;    // each way over PCIe
  std::uint64_t device_copy_bytes_per_s;  // inside the GPU's memory
  std::uint32_t launch_queue_depth;       // launches to one stream before one blocks; 1024 at most
  std::uint64_t dependent_overlap_ns;     // of a kernel with its predecessor's tail (programmatic dependent launch)

  // MIG: how NVML shows each GPU of the node to be divided. Programs still run on the whole GPU.
  std::uint32_t mig_count;  // 0: MIG is off
  MigSlice mig[kMaxMigSlices];

  std::uint32_t open_setters;  // 1: all users may call NVML's setters, not only root
  std::uint32_t mps;           // 1: an MPS server runs on the node; programs that name a pipe directory are clients

  friend bool operator==(const Profile&, const Profile&) = default;
};
static_assert(std::is_trivially_copyable_v<Profile> && std::is_standard_layout_v<Profile>);

// h200 (the default), h200-cuda13, h200-r615, l40s-x2, tiny.
[[nodiscard]] std::span<const Profile> built_in_profiles();
// Returns nullptr if there is no profile of that name.
[[nodiscard]] const Profile* find_profile(std::string_view name);

// Returns the 16 bytes of GPU `index`'s UUID, from seed and name alone (version 4, RFC 4122 variant): the same node
// always has the same UUIDs.
[[nodiscard]] std::array<std::uint8_t, 16> uuid_bytes(const Profile& profile, std::uint32_t index);
// Returns "GPU-8-4-4-4-12" in lower-case hexadecimal, NUL terminated.
[[nodiscard]] std::array<char, 41> uuid_text(const Profile& profile, std::uint32_t index);
// Return "00000000:17:00.0" (NVML's busId) and "0000:17:00.0" (the driver's and NVML's legacy form), NUL terminated.
[[nodiscard]] std::array<char, 17> pci_bus_id(const Profile& profile, std::uint32_t index);
[[nodiscard]] std::array<char, 13> pci_bus_id_legacy(const Profile& profile, std::uint32_t index);
// Returns 13 decimal digits.
[[nodiscard]] std::array<char, 14> serial_number(const Profile& profile, std::uint32_t index);
[[nodiscard]] std::uint32_t pci_bus(const Profile& profile, std::uint32_t index);

}  // namespace headgate::sim
