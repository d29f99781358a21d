// One share's processes on one GPU, second by second: figures of the driver and of the ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "observe/compute_check.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

inline constexpr std::uint64_t kSecond = 1'000'000'000, kMs = 1'000'000;
inline constexpr const char* kGpu = "GPU-a";

// Processes 1, 2, ... of the share alice.
template <typename Check>
struct TestBooks {
  Check check;
  snapshot::Snapshot snapshot;
  ComputeBooks books;
  const std::uint64_t usual_launches;

  TestBooks(std::uint32_t processes, std::uint64_t launches, ComputeRules rules)
      : check(std::move(rules)), usual_launches(launches) {
    snapshot.gpus.resize(1);
    snapshot.gpus[0].uuid = kGpu;
    snapshot.shares.resize(1);
    snapshot.shares[0].name = "alice";
    for (std::uint32_t pid = 1; pid <= processes; ++pid) {
      snapshot::Process process;
      process.pid = pid;
      process.share = "alice";
      process.devices = {{.uuid = kGpu, .driver_bytes = 1, .ledger_bytes = 1, .busy_ratio = {}}};
      snapshot.processes.push_back(process);
      words(pid) = {.metered = true, .held_ns = 5 * kSecond, .copy_ns = 0, .launches = 7, .working = false};
    }
    pass(kSecond, 0.0, 0);
  }
  ComputeWords& words(std::uint32_t pid = 1) { return books[{pid, kGpu}]; }
  void look(std::uint64_t time_ns) {
    snapshot.taken_ns += time_ns;
    check.look(snapshot, books);
  }
  // The driver says `busy` of each, the share's account has `held_ns` more, and each has so many more launches.
  void pass(std::uint64_t time_ns, std::optional<double> busy, std::uint64_t held_ns,
            std::optional<std::uint64_t> launches = {}) {
    for (auto& process : snapshot.processes) {
      process.devices[0].busy_ratio = busy;
      words(process.pid).held_ns += held_ns;
      words(process.pid).launches += launches.value_or(usual_launches);
    }
    look(time_ns);
  }
  [[nodiscard]] bool named(std::uint32_t pid = 1) const {
    const auto verdict = check.of(pid, kGpu);
    return verdict && verdict->ripe;
  }
};

}  // namespace headgate::observe
