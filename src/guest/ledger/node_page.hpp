// What the driver says of a share's processes, told by headgated to the share's limiters, so that none of them asks
// NVML.
//
//   node page   written by headgated alone, one for each share (a tenant learns nothing of the others); tenants have it
//   as a
//               descriptor that nobody can map for writing any more, and that cannot be shortened.
//
// A reading of the driver has a number, `begun` before the first question to the driver and `done` after its figures
// stand here. Who wants a figure that is true of a moment not before now notes `begun`, rings (Ring::reading), and
// waits until `done` is beyond it. Each figure is one word, and a later reading's is as good, so there is no lock.
// Numbers instead of times: processes in a time namespace have other clocks. A page of another version is not used: the
// limiter asks NVML as it does without a daemon.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kNodeMagic = 0x4847'206e'6f64'6520;  // "HG node "
inline constexpr std::uint32_t kNodePageVersion = 3;
inline constexpr std::uint64_t kNotTold = ~0ull;
// How long a limiter waits for one. After that it asks NVML, and goes on doing so until `done` moves.
inline constexpr std::int64_t kNodePatienceNs = 500'000'000;

struct NodeSlot {
  std::atomic<std::uint64_t> generation;  // of the slot whose figures these are; another slot's mean nothing
  std::atomic<std::uint64_t>
      driver_bytes[kMaxDevices];           // NVML's figure, by device of the share; kNotTold: NVML has none
  std::atomic<std::uint64_t> mps_devices;  // bit d: a client of an MPS server on device d of the share, by NVML
};

struct alignas(64) NodePage {
  PageHeader header;
  std::atomic<std::uint32_t> begun, done;  // done: a futex word
  std::uint8_t reserved[40];
  // Memory in use on the card that is no living process's: at most so much of what drains is alive. By device of the
  // share.
  std::atomic<std::uint64_t> unattributed_bytes[kMaxDevices];
  // Of the GPU's SMs, what the share's processes there have together as such clients, by their SlotDevice::sm_percent;
  // 0: one of them may have all, or none is there. By device of the share.
  std::atomic<std::uint32_t> sm_percent[kMaxDevices];
  // What a context takes of the card, by the driver's figures of all shares; 0: not known. By device of the share.
  std::atomic<std::uint64_t> context_bytes[kMaxDevices];
  NodeSlot slots[kMaxSlots];
};

static_assert(offsetof(NodePage, unattributed_bytes) == 64 && sizeof(NodeSlot) == 144);
static_assert(sizeof(NodePage) == 64 + 128 + 64 + 128 + kMaxSlots * sizeof(NodeSlot));

}  // namespace headgate::ledger
