// What the driver reports about a share's processes, from headgated to the share's limiters, so that limiters need not
// query NVML.
//
//   node page   written only by headgated, one per share (a tenant learns nothing about others). Tenants get it as a
//               descriptor that can no longer be mapped for writing or shortened.
//
// A reading of the driver has a number: `begun` is set before the first query, `done` after its figures are here. A
// limiter that needs a current figure notes `begun`, rings (Ring::reading), and waits until `done` exceeds it. Each
// figure is one word, and that of a later reading is as good, so there is no lock. Numbers instead of times, because
// processes in a time namespace have other clocks. With another version of the page, the limiter queries NVML as
// without a daemon.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kNodeMagic = 0x4847'206e'6f64'6520;  // "HG node "
inline constexpr std::uint32_t kNodePageVersion = 3;
inline constexpr std::uint64_t kNotTold = ~0ull;
// How long a limiter waits for a reading. Then it queries NVML until `done` moves.
inline constexpr std::int64_t kNodePatienceNs = 500'000'000;

struct NodeSlot {
  std::atomic<std::uint64_t> generation;  // of the slot that the figures belong to; ignore them for another
  std::atomic<std::uint64_t> driver_bytes[kMaxDevices];  // NVML's figure, by device of the share; kNotTold: none
  std::atomic<std::uint64_t> mps_devices;                // bit d: by NVML, an MPS client on the share's device d
};

struct alignas(64) NodePage {
  PageHeader header;
  std::atomic<std::uint32_t> begun, done;  // done: a futex word
  std::uint8_t reserved[40];
  // Memory in use on the card that belongs to no living process: an upper bound for what drains. By device of the
  // share.
  std::atomic<std::uint64_t> unattributed_bytes[kMaxDevices];
  // Percent of the GPU's SMs that the share's MPS clients there have together, by their SlotDevice::sm_percent; 0: one
  // may use all, or there is none. By device of the share.
  std::atomic<std::uint32_t> sm_percent[kMaxDevices];
  // Memory of a context on the card, by the driver's figures of all shares; 0: unknown. By device of the share.
  std::atomic<std::uint64_t> context_bytes[kMaxDevices];
  NodeSlot slots[kMaxSlots];
};

static_assert(offsetof(NodePage, unattributed_bytes) == 64 && sizeof(NodeSlot) == 144);
static_assert(sizeof(NodePage) == 64 + 128 + 64 + 128 + kMaxSlots * sizeof(NodeSlot));

}  // namespace headgate::ledger
