// A share as the arbiter's thread has it: separate mappings of its pages, and its limiters' reports.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/untrusted_socket.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/ledger/pages.hpp"
#include "node/gpu_board.hpp"
#include "schedule/arbiter.hpp"
#include "tenancy/sigbus_guard.hpp"

namespace headgate::node {

// Checks a share's claim that it had the GPU in a turn. Limiters add marked time to the share's account in the same
// step, so marks without a matching account do not come from a limiter. If the daemon trusted them, the share could
// hold the GPU turn after turn without a charge. For one share on one GPU. Not thread-safe.
class ReportCheck {
 public:
  // For a turn settled at `now_ns`: how long only this share marked that it held the GPU, and what its account says
  // now. Returns false if the account supports less than a quarter of what it marked lately.
  [[nodiscard]] bool holds(std::int64_t alone_ns, std::int64_t held_ns, std::int64_t now_ns);

 private:
  std::int64_t held_ns_ = 0, looked_ns_ = 0;  // 0: never
  std::int64_t credit_ns_ = 0;
};

class ArbitratedShare {
 public:
  // Maps the pages of RUNTIME/shares/NAME. `gpus`: UUIDs of the node's GPUs in the arbiter's order; the share's other
  // devices are left out. Errors: of the pages.
  [[nodiscard]] static Result<ArbitratedShare> open(const std::string& runtime_dir, const std::string& name,
                                                    const std::vector<std::string>& gpus);

  // Returns the share's GPUs with what its owner grants on each, as the policy page says now.
  [[nodiscard]] std::vector<schedule::Terms> terms() const;
  [[nodiscard]] schedule::Terms terms_of(std::uint32_t gpu) const;
  // Returns what its limiters report about a GPU; a false report moves only this share's account. Processes that joined
  // in the last 10 ms may be missing unless list_again() was called.
  [[nodiscard]] schedule::Use use_of(std::uint32_t gpu, std::int64_t now_ns);
  // Call it when its doorbell was rung: a process may have just joined.
  void list_again() { listed_ns_ = kNever; }
  // Returns, as bits, in which of the 48 microseconds from `word` * 48 us on it held the GPU.
  [[nodiscard]] std::uint64_t held_in(std::uint32_t gpu, std::int64_t word) const;
  // Returns ReportCheck::holds(), given what its account of that GPU says now.
  [[nodiscard]] bool is_supported_by_account(std::uint32_t gpu, std::int64_t alone_ns, std::int64_t now_ns);

  // The pages on which its limiters mark their work. make_marks() makes them, and returns whether there are any.
  bool make_marks();
  [[nodiscard]] const ShareMarks& marks() const { return marks_; }
  [[nodiscard]] const ledger::GpuPage& marks_on(std::uint32_t gpu) const { return marks_.of(device_of_[gpu]); }
  // Returns the node's GPU for each of the share's devices, in the share's order; kMaxGpus: not arbitrated.
  [[nodiscard]] std::vector<std::uint32_t> gpus() const;

  [[nodiscard]] ledger::PolicyPage& policy() const { return pages_.policy(); }
  [[nodiscard]] ledger::DevicePolicy& policy_of(std::uint32_t gpu) const { return policy().devices[device_of_[gpu]]; }
  // As in guest/ledger/gate.hpp.
  [[nodiscard]] schedule::Gate gate(std::uint32_t gpu) const;
  void write_gate(std::uint32_t gpu, schedule::Gate gate, std::int64_t batch_ns, std::int64_t opens_ns = 0);
  void write_behind(std::uint32_t gpu, std::uint16_t ms);
  void wake_at_gate(std::uint32_t gpu) { ledger::wake_at_gate(policy(), device_of_[gpu]); }
  void set_arbitrated(std::uint32_t gpu, bool on) { ledger::set_arbitrated(policy(), device_of_[gpu], on); }
  void beat() { policy().heartbeat.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] bool has(std::uint32_t gpu) const { return device_of_[gpu] != ledger::kMaxDevices; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
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
  // A slot's pulse, and when it was first seen to have this value.
  struct Pulse {
    std::uint32_t pulse = 0;
    std::int64_t seen_ns = 0;
  };

  ArbitratedShare(ledger::SharePages pages, std::string name, const std::vector<std::string>& gpus);
  void list_seats(std::int64_t now_ns);
  bool alive(std::uint32_t device, std::uint32_t slot, std::uint32_t pulse, std::int64_t now_ns);

  std::string name_;
  Pages pages_;
  tenancy::SigbusGuard guard_;
  // Index of the node's GPU in the pages; kMaxDevices: not in the share.
  std::array<std::uint32_t, schedule::kMaxGpus> device_of_;
  std::vector<Pulse> pulses_;  // by device, then slot
  static constexpr std::int64_t kNever = -1'000'000'000'000;
  std::int64_t listed_ns_ = kNever;   // when seats_ was made
  std::vector<std::uint32_t> seats_;  // slots that had processes then
  ShareMarks marks_;
  std::array<ReportCheck, schedule::kMaxGpus> report_checks_;
};

// The daemon's end of a share's doorbell. A tenant can ring as often as it likes, so each share pays for its rings out
// of its unused part of the last 10 ms; then it is not heard for a while. Not thread-safe.
class Doorbell {
 public:
  explicit Doorbell(UniqueFd bell) : socket_(std::move(bell)) {}

  struct Heard {
    std::uint32_t rings = 0;
    bool memory = false, reading = false;  // what was rung for beside turns
  };
  // Takes rings from the socket. Call it when that is readable.
  Heard hear(std::int64_t now_ns);
  // Returns until when not to listen; 0: the share has not rung too often.
  [[nodiscard]] std::int64_t muted_until_ns() const { return muted_until_ns_; }
  void unmute() { muted_until_ns_ = 0; }
  // Returns whether a tenant has shut it down, or sent descriptors: nothing more will be heard.
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }  // -1: none
  // What was heard so far stays paid for.
  void replace(UniqueFd bell) {
    socket_ = UntrustedSocket(std::move(bell));
    closed_ = false;
  }

 private:
  UntrustedSocket socket_;
  std::int64_t paid_ns_ = 0;  // until when the rings heard so far are paid for
  std::int64_t muted_until_ns_ = 0;
  bool closed_ = false;
};

}  // namespace headgate::node
