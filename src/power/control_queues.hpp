// A bounded FIFO of commands and a worker thread for each GPU. Commands to one GPU run in order; GPUs do not wait for
// each other. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "power/command.hpp"
#include "power/gpu_manager.hpp"

namespace headgate::power {

// The result of each GPU of a request, by index.
using Answers = std::map<std::uint32_t, Result<Reading>>;

// The caller of a command, for log and events.
struct Caller {
  std::string text;                    // "uid 1000", "token of alice"
  std::optional<std::uint32_t> uid{};  // from the kernel
  bool quiet = false;                  // do not log its reads: the daemon reads every few seconds
  friend bool operator==(const Caller&, const Caller&) = default;
};

// A command that a worker has done: for log, events and metrics.
struct Executed {
  std::uint32_t gpu = 0;
  std::uint64_t request = 0;
  Caller caller;
  Command command;
  Result<Reading> result;
  std::string from, to;           // for a write: the values before and after, read back; empty: unknown
  std::uint64_t superseded = 0;   // earlier commands that this one replaced before they started
  bool awaited = false;           // a blocking command: its caller gets the result
  std::uint64_t done_ns = 0;      // from the request's arrival to its end
  std::uint64_t overhead_ns = 0;  // the daemon's part: without calls into the GPU library and queueing
};

class ControlQueues {
 public:
  static constexpr std::size_t kDepth = 200;  // commands queued per GPU

  // `done` is called on a worker's thread after each command, before the caller gets the result.
  ControlQueues(std::vector<std::unique_ptr<GpuManager>> gpus, std::function<void(const Executed&)> done,
                std::size_t depth = kDepth);
  // Waits for running commands. Withdraws queued ones.
  ~ControlQueues();
  ControlQueues(const ControlQueues&) = delete;

  [[nodiscard]] std::size_t count() const { return gpus_.size(); }
  // Returns the manager of a GPU below count(), for its getters.
  [[nodiscard]] GpuManager& gpu(std::uint32_t index) const { return *gpus_[index]; }

  // One client request: all listed GPUs get the command, or none.
  struct Request {
    std::vector<std::uint32_t> gpus;  // without duplicates
    Command command;
    Caller caller;
    std::uint64_t arrived_ns = 0;  // steady clock
    // If set, the request blocks: called once with all results when the last GPU is done, on a worker's thread or that
    // of withdraw(). If not set, no caller waits, and a later setting of the same control replaces a queued one.
    std::function<void(Answers)> answer;
  };
  // Returns the request's number. Errors, with no GPU getting the command: not_found (no such index), busy (a queue is
  // full), failed (a GPU's worker has ended).
  Result<std::uint64_t> submit(Request request);
  // Refuses new commands and withdraws queued ones. Returns false if a worker is still in a GPU library call after
  // `patience`; the destructor would wait for it.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience);
  // Withdraws a blocking request's commands that have not started and answers it at once; does nothing if it is
  // answered. `patience`: how long it waited, for messages: "4.5 s".
  void withdraw(std::uint64_t request, const std::string& patience);

  // Returns the clocks last locked through these queues and not reset; {0, 0}: none. The driver does not report them.
  [[nodiscard]] ClockRange locked_clocks(std::uint32_t index, Operation set) const;
  [[nodiscard]] std::size_t waiting(std::uint32_t index) const;

 private:
  struct Batch;
  struct Item {
    Command command;
    std::uint64_t request = 0;
    Caller caller;
    std::uint64_t arrived_ns = 0, queued_ns = 0;
    std::uint64_t superseded = 0;
    std::shared_ptr<Batch> batch;  // for a blocking request; shared by its items and `batches_`
  };
  struct Queue {
    std::deque<Item> items;
    std::condition_variable wake;
    std::optional<std::string> ended;       // why the worker has ended
    ClockRange gpu_clocks{}, mem_clocks{};  // last set by us; 0: none
  };
  struct Batch {
    std::uint64_t request = 0;
    std::vector<std::uint32_t> gpus;
    Answers answers;
    std::function<void(Answers)> answer;
  };

  using Calls = std::vector<std::function<void()>>;  // callbacks to run after the lock is released

  void work(std::uint32_t index);
  Result<Reading> execute(std::uint32_t index, const Item& item);
  void end_worker(std::uint32_t index, const Item& running, const std::string& why);
  [[nodiscard]] std::string value_of(std::uint32_t index, Operation operation) const;
  // Called with the lock held.
  void settle(const std::shared_ptr<Batch>& batch, std::uint32_t gpu, Result<Reading> result, Calls& calls);
  void settle_all(const std::shared_ptr<Batch>& batch, Calls& calls);

  const std::vector<std::unique_ptr<GpuManager>> gpus_;
  const std::function<void(const Executed&)> done_;
  const std::size_t depth_;
  mutable std::mutex mutex_;  // guards everything below
  std::deque<Queue> queues_;
  std::map<std::uint64_t, std::shared_ptr<Batch>> batches_;  // not answered
  std::uint64_t last_request_ = 0;
  bool stopping_ = false;
  std::size_t running_ = 0;  // workers
  std::condition_variable stopped_;
  std::vector<std::jthread> workers_;  // last member: the threads use the others
};

}  // namespace headgate::power
