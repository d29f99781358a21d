// A bounded FIFO of commands and one worker thread for each GPU. A command waits behind those that came before it to
// the same GPU, and GPUs do not wait for each other. Thread-safe.
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

// What each GPU of a request answered, by index.
using Answers = std::map<std::uint32_t, Result<Reading>>;

// Who gave a command, for the log and events.
struct Caller {
  std::string text;                    // "uid 1000", "token of alice"
  std::optional<std::uint32_t> uid{};  // by the kernel's word
  bool quiet = false;                  // its reads are not worth a line: the daemon looks every few seconds
  friend bool operator==(const Caller&, const Caller&) = default;
};

// What a worker did: for the log, events and metrics.
struct Executed {
  std::uint32_t gpu = 0;
  std::uint64_t request = 0;
  Caller caller;
  Command command;
  Result<Reading> result;
  std::string from, to;  // of a write: the value that the GPU had before and has now, read back; empty: not known
  std::uint64_t superseded = 0;   // earlier commands that this one replaced before they had started
  bool awaited = false;           // a blocking command: its caller gets the result
  std::uint64_t done_ns = 0;      // from the request's arrival to its end
  std::uint64_t overhead_ns = 0;  // of it the daemon's part: all but the GPU library's calls and the wait in the queue
};

class ControlQueues {
 public:
  static constexpr std::size_t kDepth = 200;  // commands of one GPU that wait

  // `done` is called on the workers' threads after each command, before its caller has the answer.
  ControlQueues(std::vector<std::unique_ptr<GpuManager>> gpus, std::function<void(const Executed&)> done,
                std::size_t depth = kDepth);
  // Waits for the commands that run. Those that wait are withdrawn.
  ~ControlQueues();
  ControlQueues(const ControlQueues&) = delete;

  [[nodiscard]] std::size_t count() const { return gpus_.size(); }
  // The manager of a GPU below count(): for its getters.
  [[nodiscard]] GpuManager& gpu(std::uint32_t index) const { return *gpus_[index]; }

  // One call of a client: all listed GPUs get the command, or none does.
  struct Request {
    std::vector<std::uint32_t> gpus;  // each once
    Command command;
    Caller caller;
    std::uint64_t arrived_ns = 0;  // steady clock
    // Set: a blocking call, which is given all answers once, when the last GPU has answered. On a worker's thread, or
    // on that of withdraw(). Not set: no caller waits for the answers, and a later setting of the same control replaces
    // this one while it waits.
    std::function<void(Answers)> answer;
  };
  // Returns the request's number. Errors: not_found (an index that no GPU has), busy (a queue is full), failed (a GPU's
  // worker has ended): then no GPU gets the command.
  Result<std::uint64_t> submit(Request request);
  // No more commands: those that wait are withdrawn. False: a worker is still in a call of the GPU library when
  // `patience` is over; the destructor would wait for it.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience);
  // Takes a blocking request's commands out of the queues where they have not started, and answers the request at once.
  // Does nothing where it has been answered. `patience`: how long it waited, for the messages: "4.5 s".
  void withdraw(std::uint64_t request, const std::string& patience);

  // The GPU or memory clocks that were locked through these queues last and not reset since; {0, 0}: none. The driver
  // does not tell.
  [[nodiscard]] ClockRange locked_clocks(std::uint32_t index, Operation set) const;
  [[nodiscard]] std::size_t waiting(std::uint32_t index) const;
  [[nodiscard]] std::uint64_t merged() const;  // commands that a later one replaced before they started

 private:
  struct Batch;
  struct Item {
    Command command;
    std::uint64_t request = 0;
    Caller caller;
    std::uint64_t arrived_ns = 0, queued_ns = 0;
    std::uint64_t superseded = 0;
    std::shared_ptr<Batch> batch;  // of a blocking request; shared by its items and `batches_`
  };
  struct Queue {
    std::deque<Item> items;
    std::condition_variable wake;
    std::optional<std::string> ended;       // why the worker has ended
    ClockRange gpu_clocks{}, mem_clocks{};  // that we set last; 0: none
  };
  struct Batch {
    std::uint64_t request = 0;
    std::vector<std::uint32_t> gpus;
    Answers answers;
    std::function<void(Answers)> answer;
  };

  using Calls = std::vector<std::function<void()>>;  // what to call when the lock is no longer held

  void work(std::uint32_t index);
  Result<Reading> execute(std::uint32_t index, const Item& item);
  void end_worker(std::uint32_t index, const Item& running, const std::string& why);
  [[nodiscard]] std::string value_of(std::uint32_t index, Operation operation) const;
  // With the lock held.
  void settle(const std::shared_ptr<Batch>& batch, std::uint32_t gpu, Result<Reading> result, Calls& calls);
  void settle_all(const std::shared_ptr<Batch>& batch, Calls& calls);

  const std::vector<std::unique_ptr<GpuManager>> gpus_;
  const std::function<void(const Executed&)> done_;
  const std::size_t depth_;
  mutable std::mutex mutex_;  // of everything below
  std::deque<Queue> queues_;
  std::map<std::uint64_t, std::shared_ptr<Batch>> batches_;  // not answered yet
  std::uint64_t last_request_ = 0;
  std::uint64_t merged_ = 0;
  bool stopping_ = false;
  std::size_t running_ = 0;  // workers
  std::condition_variable stopped_;
  std::vector<std::jthread> workers_;  // the last: they use the others until they have ended
};

}  // namespace headgate::power
