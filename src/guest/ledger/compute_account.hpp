// The compute account of one share on one device: what was held, what is paid for, when the gate opens.
//
// Two shared things, each lock-free and sound if a process dies between any two stores (at most the interval that it
// was just settling is lost):
//   paid_until_ns  a virtual time. Charging c ns of GPU time moves it c / ceiling ahead; the gate is open while it is
//                  not ahead of now. It lags now by at most the catch-up window, so lateness costs nothing and sleep
//                  earns nothing.
//   coverage       which microseconds are charged already (coverage.hpp): whoever marks one first pays for it. Any
//                  order of settlement, by any number of processes, gives the exact union. The ring reaches back 98 ms.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// The ceiling that holds now: `burst_ppm` where it is above `ceiling_ppm` and no other share had work lately, as the
// share's settlers have said (alone_until_ns). Where that differs from what the account was priced at, what is still
// owed is priced anew: debt of a low ceiling does not outlast a raised one.
std::uint32_t rate_now(ComputeAccount& account, std::uint32_t ceiling_ppm, std::uint32_t burst_ppm,
                       std::int64_t now_ns);

// The ceiling that the account is priced at, `ceiling_ppm` where that is not known.
std::uint32_t rate_in_force(const ComputeAccount& account, std::uint32_t ceiling_ppm);

// Host time that `gpu_ns` costs at a ceiling of 1..kWholeGpu ppm.
constexpr std::int64_t price_ns(std::int64_t gpu_ns, std::uint32_t ceiling_ppm) {
  return gpu_ns / ceiling_ppm * kWholeGpu + gpu_ns % ceiling_ppm * kWholeGpu / ceiling_ppm;
}

// Any process of the share can write the word. What is read of it stays far enough from the ends that no time computed
// from it overflows.
constexpr std::int64_t sane_paid_ns(std::int64_t paid_ns) {
  constexpr std::int64_t kFarNs = 1ll << 61;
  return paid_ns < -kFarNs ? -kFarNs : paid_ns > kFarNs ? kFarNs : paid_ns;
}
inline std::int64_t paid_until_ns(const ComputeAccount& account) {
  return sane_paid_ns(account.paid_until_ns.load(std::memory_order_relaxed));
}

// Marks [from_ns, to_ns) of host time as held; returns how much of it nobody had marked, in ns.
std::int64_t cover(ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns);

// Whether all of [from_ns, to_ns) is marked. False where it reaches back further than the ring.
bool held_throughout(const ComputeAccount& account, std::int64_t from_ns, std::int64_t to_ns);

// The gate and its charge in one step. 0: open, and gpu_ns is charged. Else: the ns until it opens; nothing is charged.
std::int64_t try_charge(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                        std::int64_t catch_up_ns);

// Charges whether the gate is open or not: debt. Never starts further back than the catch-up window.
void charge_debt(ComputeAccount& account, std::int64_t now_ns, std::int64_t gpu_ns, std::uint32_t ceiling_ppm,
                 std::int64_t catch_up_ns);

// Measured minus estimated: moves the account either way.
void correct(ComputeAccount& account, std::int64_t gpu_ns, std::uint32_t ceiling_ppm);

}  // namespace headgate::ledger
