// A share as the arbiter's thread has it: mappings of its pages of its own, the bell that it rings, and what its
// limiters report.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/untrusted_socket.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/ledger/pages.hpp"
#include "node/gpu_boards.hpp"
#include "node/report_check.hpp"
#include "schedule/arbiter.hpp"
#include "tenancy/sigbus_guard.hpp"

namespace headgate::node {

class ArbitratedShare {
 public:
  // Maps the pages of RUNTIME/shares/NAME. `gpus`: UUIDs of the node's GPUs, in the arbiter's order; others are left
  // out. Errors: of the pages.
  [[nodiscard]] static Result<ArbitratedShare> open(const std::string& runtime_dir, const std::string& name,
                                                    const std::vector<std::string>& gpus, UniqueFd bell);

  // The share's GPUs with what its owner grants on each, as the policy page has it now.
  [[nodiscard]] std::vector<schedule::Terms> terms() const;
  // Whether they are still these; asked at each look, and so without a vector of its own.
  [[nodiscard]] bool has_terms(const std::vector<schedule::Terms>& terms) const;
  // What its limiters report of a GPU. Whatever is written there moves this share's own account only.
  // Processes that have come in the last 10 ms may be missing, if not for look_anew().
  [[nodiscard]] schedule::Use use_of(std::uint32_t gpu, std::int64_t now_ns);
  // Its doorbell was rung: that may be a process which has come only now.
  void look_anew() { listed_ns_ = kNever; }
  // Of the 48 microseconds that begin at `word` * 48 us: those in which it held the GPU, as bits.
  [[nodiscard]] std::uint64_t held_in(std::uint32_t gpu, std::int64_t word) const;
  // ReportCheck::holds(), by what its account of that GPU says now.
  [[nodiscard]] bool is_supported_by_account(std::uint32_t gpu, std::int64_t alone_ns, std::int64_t now_ns);

  // The pages on which its limiters mark their work: made by make_marks(), which says whether there are some.
  bool make_marks();
  [[nodiscard]] const ShareMarks& marks() const { return marks_; }
  [[nodiscard]] const ledger::GpuPage& marks_on(std::uint32_t gpu) const { return marks_.of(device_of_[gpu]); }
  // Of the share's devices, in its own order, which GPU of the node each is; kMaxGpus: none that is arbitrated.
  [[nodiscard]] std::vector<std::uint32_t> gpus() const;
  [[nodiscard]] std::uint64_t generation() const { return pages_.policy().generation; }

  // Whether somebody decided of its gates before us; then gate() and virtual_time_ns() are the last word on them.
  [[nodiscard]] bool was_arbitrated(std::uint32_t gpu) const;
  [[nodiscard]] schedule::Gate gate(std::uint32_t gpu) const;
  [[nodiscard]] std::int64_t virtual_time_ns(std::uint32_t gpu) const;

  // As in guest/ledger/gate.hpp.
  void write_gate(std::uint32_t gpu, schedule::Gate gate, std::int64_t batch_ns);
  void wake_at_gate(std::uint32_t gpu);
  void set_gate(std::uint32_t gpu, schedule::Gate gate, std::int64_t batch_ns);
  void set_arbitrated(std::uint32_t gpu, bool arbitrated);
  void keep_virtual_time(std::uint32_t gpu, std::int64_t ns);
  void beat();

  [[nodiscard]] int bell() const { return bell_.get(); }
  void set_bell(UniqueFd bell) { bell_ = UntrustedSocket(std::move(bell)); }
  [[nodiscard]] bool has(std::uint32_t gpu) const { return device_of_[gpu] != ledger::kMaxDevices; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] schedule::Terms terms_of(std::uint32_t gpu) const;
  class Pages {
   public:
    explicit Pages(ledger::SharePages pages) : pages_(pages) {}
    Pages(Pages&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
    Pages& operator=(Pages&&) = delete;
    ~Pages() { ledger::close_pages(pages_); }
    [[nodiscard]] ledger::PolicyPage& policy() const { return *pages_.writable_policy; }
    [[nodiscard]] ledger::UsagePage& usage() const { return *pages_.usage; }

   private:
    ledger::SharePages pages_;
  };
  // When a slot's pulse was last seen to have moved.
  struct Pulse {
    std::uint32_t pulse = 0;
    std::int64_t seen_ns = 0;
  };

  ArbitratedShare(ledger::SharePages pages, std::string name, const std::vector<std::string>& gpus, UniqueFd bell);
  [[nodiscard]] ledger::DevicePolicy& policy_of(std::uint32_t gpu) const {
    return pages_.policy().devices[device_of_[gpu]];
  }
  void list_seats(std::int64_t now_ns);
  bool alive(std::uint32_t device, std::uint32_t slot, std::uint32_t pulse, std::int64_t now_ns);

  std::string name_;
  Pages pages_;
  tenancy::SigbusGuard guard_;
  UntrustedSocket bell_;
  std::array<std::uint32_t, schedule::kMaxGpus>
      device_of_;              // of the node's GPU in the pages; kMaxDevices: not in the share
  std::vector<Pulse> pulses_;  // by device, then slot
  static constexpr std::int64_t kNever = -1'000'000'000'000;
  std::int64_t listed_ns_ = kNever;   // when seats_ was made
  std::vector<std::uint32_t> seats_;  // slots of processes that were there then
  ShareMarks marks_;
  std::array<ReportCheck, schedule::kMaxGpus> report_checks_;
};

}  // namespace headgate::node
