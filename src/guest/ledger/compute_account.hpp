// The compute account of a share on one device: time held, time paid for, and when the gate opens.
//
// Two shared parts, each lock-free and sound if a process dies between any two stores (at most the interval that it was
// settling is lost):
//   paid_until_ns  a virtual time. Charging c ns of GPU time moves it c / ceiling ahead; the gate is open while it is
//                  not ahead of now. It lags now by at most the catch-up window, so lateness costs nothing and sleep
//                  earns nothing.
//   coverage       which microseconds are charged (coverage.hpp): the process that marks one first pays for it. Any
//                  order of settlement, by any number of processes, gives the exact union, but for what
//                  cover_apart() adds. Reaches back 98 ms.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// Returns the ceiling in force: `burst_ppm` if it exceeds `ceiling_ppm` and no other share had work lately, as reported
// by the share's settlers (alone_until_ns). If the rate changed, reprices what is still owed: debt of a low ceiling
// does not outlast a raised one.
std::uint32_t rate_now(ComputeAccount& account, std::uint32_t ceiling_ppm, std::uint32_t burst_ppm,
                       std::int64_t now_ns);

// Returns the ceiling that the account is priced at, or `ceiling_ppm` if unknown.
std::uint32_t rate_in_force(const ComputeAccount& account, std::uint32_t ceiling_ppm);

// Returns the host time that `gpu_ns` costs at a ceiling of 1..kWholeGpu ppm.
constexpr std::int64_t price_ns(std::int64_t gpu_ns, std::uint32_t ceiling_ppm) {
  return gpu_ns / ceiling_ppm * kWholeGpu + gpu_ns % ceiling_ppm * kWholeGpu / ceiling_ppm;
}

// Clamps the word, which any process of the share can write, far enough from the ends that no time computed from it
// overflows.
constexpr std::int64_t sane_paid_ns(std::int64_t paid_ns) {
  constexpr std::int64_t kFarNs = 1ll << 61;
  return paid_ns < -kFarNs ? -kFarNs : paid_ns > kFarNs ? kFarNs : paid_ns;
}
inline std::int64_t paid_until_ns(const ComputeAccount& account) {
  return sane_paid_ns(account.paid_until_ns.load(std::memory_order_relaxed));
}

// Marks [from_ns, to_ns) of host time as held; returns how much of it was not marked before, in ns.
std::int64_t cover(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns);

// The same for work during which no other context had the GPU. Each context has its own map of the GPU's clock, so this
// one's times differ from the others' by up to kMapMarginNs. What overlaps marks only so near its ends is no time held
// together: as much that is unmarked is marked next to it.
std::int64_t cover_apart(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns);

// Returns whether all of [from_ns, to_ns) is marked; false if it reaches back further than the ring.
bool held_throughout(const ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns);

// Checks the gate and charges in one step. Returns 0 if gpu_ns was charged, else the ns until the gate opens.
std::int64_t try_charge(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                        std::int64_t catch_up_ns);

// Charges as debt even if the gate is shut. Never starts further back than the catch-up window.
void charge_debt(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                 std::int64_t catch_up_ns);

// Applies measured minus estimated time; may move the account either way.
void correct(ComputeAccount& account, std::int64_t gpu_ns, std::uint32_t ceiling_ppm);

}  // namespace headgate::ledger
