// The model of the simulated GPUs, pure: no clock, no I/O, no lock. Time is an argument, in ns of node time.
//
// advance(a) then advance(b) gives the same result as advance(b), if the same commands were pushed. A command starts no
// earlier than its submit time plus the profile's submit_ns, and never before the engine's current time when it is
// first seen.
//
// Virtual time: `auto state = make_state(profile); Engine engine(*state);` then open_process, create_context,
// create_stream, push, advance. No function allocates. Not thread-safe. Another process may call push, record and read
// events next to one engine, as state.hpp describes.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "sim/engine/journal.hpp"
#include "sim/engine/state.hpp"

namespace headgate::sim {

struct StateDeleter {
  void operator()(State* state) const;
};
using StatePointer = std::unique_ptr<State, StateDeleter>;

// Makes an empty node of this profile in private sparse memory (about 300 MB of addresses, few pages). Null if there is
// no memory.
[[nodiscard]] StatePointer make_state(const Profile& profile, std::uint64_t now_ns = 0);
// The same, in memory that the caller has zeroed.
void initialise(State& state, const Profile& profile, std::uint64_t now_ns);

struct ProcessIdentity {
  std::int32_t pid = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
  std::string_view comm;  // cut to 15 bytes
  std::uint32_t image = 0;
  std::uint32_t mps_percent = 0;  // 1..100: MPS client with this share of each GPU's SMs; 0: no client
  std::array<std::uint64_t, kMaxCgroups> cgroups{};  // Process::cgroups
};

struct EventReading {
  bool recorded = false;      // a record was requested
  bool complete = false;      // the last record was executed; true if none was requested
  std::uint64_t node_ns = 0;  // time of that record
  std::uint64_t gpu_ns = 0;   // the same on the GPU's clock, with offset, drift and step
};

class Engine {
 public:
  explicit Engine(State& state, Journal* journal = nullptr) : state_(&state), journal_(journal) {}

  [[nodiscard]] const State& state() const { return *state_; }
  [[nodiscard]] std::uint64_t now_ns() const { return state_->now_ns; }

  // These return slots; kNone if all are taken.
  [[nodiscard]] std::uint32_t open_process(const ProcessIdentity& identity);
  // Exit or death: frees contexts, streams, events and bytes; the accounts stay listed as dead.
  void close_process(std::uint32_t process);
  // Returns the process's account on a device, made at first use; kNone if living processes hold all.
  [[nodiscard]] std::uint32_t account(std::uint32_t process, std::uint32_t device);

  // Makes a context with its legacy stream. Does not charge its bytes: see reserve_context_bytes.
  [[nodiscard]] std::uint32_t create_context(std::uint32_t process, std::uint32_t device);
  void destroy_context(std::uint32_t context);
  [[nodiscard]] std::uint32_t create_stream(std::uint32_t context, StreamKind kind, Partition partition = {});
  // Applies from its next kernel on.
  void place_stream(std::uint32_t stream, Partition partition);
  // Return the slots that the next create_stream and account will take, so that disk space can be allocated first.
  [[nodiscard]] std::uint32_t next_stream_slot() const;
  [[nodiscard]] std::uint32_t next_account_slot(std::uint32_t process, std::uint32_t device) const;
  // Queued work still runs; the slot is free afterwards.
  void destroy_stream(std::uint32_t stream);
  [[nodiscard]] std::uint32_t legacy_stream(std::uint32_t context) const { return state_->contexts[context].legacy; }
  [[nodiscard]] std::uint32_t create_event(std::uint32_t process, std::uint32_t device);
  void destroy_event(std::uint32_t event);
  // Returns the flag of this number (process kNone) or address, made with value 0 at first use; kNone if all are taken.
  [[nodiscard]] std::uint32_t flag(std::uint32_t process, std::uint64_t key);
  void write_flag(std::uint32_t flag, std::uint64_t value);

  // Executes everything up to now_ns, in order. Does nothing if now_ns is before the current time.
  void advance(std::uint64_t now_ns);
  // Returns the time of the next change with the present queues; kNever if there is none.
  [[nodiscard]] std::uint64_t next_change_ns() const;

  [[nodiscard]] std::uint64_t completed(std::uint32_t stream) const { return state_->streams[stream].head; }
  // Returns a lower bound for the completion of command `number` (from 1): the exact time if nothing else wants the
  // device. kNever: it waits for something that no queue announces (a flag, a host function).
  [[nodiscard]] std::uint64_t earliest_finish_ns(std::uint32_t stream, std::uint64_t number) const;

  // host_reached(): a host function at the head of its stream is due. host_done(): it has returned.
  [[nodiscard]] bool host_reached(std::uint32_t stream, std::uint64_t number) const;
  void host_done(std::uint32_t stream);

  // Returns false, and changes nothing, if the device has too little left. `footprint`: bytes that the device loses if
  // different from `bytes`: a slab of 2 MiB for the first small allocation in it, 0 for the next.
  [[nodiscard]] bool reserve(std::uint32_t account, std::uint64_t bytes, std::uint64_t footprint);
  [[nodiscard]] bool reserve(std::uint32_t account, std::uint64_t bytes) { return reserve(account, bytes, bytes); }
  void release(std::uint32_t account, std::uint64_t bytes, std::uint64_t footprint);
  void release(std::uint32_t account, std::uint64_t bytes) { release(account, bytes, bytes); }
  [[nodiscard]] bool reserve_context_bytes(std::uint32_t account, std::uint64_t bytes);
  void release_context_bytes(std::uint32_t account, std::uint64_t bytes);
  // shared.cpp: memory that may outlive its creator. The account is charged until it lets go or dies; the device, until
  // the memory ends. The bytes must be charged to the account already. kNone if all slots are taken.
  [[nodiscard]] std::uint32_t share(std::uint32_t account, std::uint64_t bytes);
  void name_shared(std::uint32_t shared, std::uint64_t inode);
  void unshare(std::uint32_t shared);  // counts the bytes as ordinary bytes of the account again
  void disown_shared(std::uint32_t shared);
  void free_shared(std::uint32_t shared);
  [[nodiscard]] std::uint64_t capacity_bytes() const;  // of one device: memory minus reserved
  [[nodiscard]] std::uint64_t free_bytes(std::uint32_t device) const;
  // fence.cpp: limits of memory by cgroup. The innermost limited cgroup of a process counts alone, as with the driver's
  // accounting where the kernel has no dmem controller.
  [[nodiscard]] const MemoryFence* fence_of(std::span<const std::uint64_t, kMaxCgroups> cgroups,
                                            std::uint32_t device) const;
  // Returns what the processes that it holds have on that device, contexts included.
  [[nodiscard]] std::uint64_t fenced_bytes(const MemoryFence& fence, std::uint32_t device) const;
  // Returns the bytes that the account can still take: the device's free ones, or less because of a cgroup's limit.
  [[nodiscard]] std::uint64_t free_bytes_for(const Account& account) const;

  // checkpoint.cpp. Return false, and change nothing, if the process shares memory with others or the devices lack
  // room.
  [[nodiscard]] bool checkpoint_process(std::uint32_t process);
  [[nodiscard]] bool restore_process(std::uint32_t process);
  void set_checkpoint(std::uint32_t process, CheckpointState state);
  // Returns true if nothing is queued or running.
  [[nodiscard]] bool process_idle(std::uint32_t process) const;
  // fault.cpp: ends the context. Running work stops; queued work is dropped as it is reached. Its records count as
  // executed, so that other waiters continue. Host functions are still reached; their caller checks the context. Call
  // it only once.
  void fail_context(std::uint32_t context, std::uint32_t error);
  // Removes dead accounts; resets totals, histories and node-wide flags to 0. Living processes keep what they hold.
  void reset_accounts();

 private:
  template <typename T>
  T& change(const T& what) {
    if (journal_) journal_->save(&what, sizeof(T));
    return const_cast<T&>(what);
  }
  void commit() {
    if (journal_) journal_->commit();
  }

  // advance.cpp
  void account_until(std::uint32_t device, std::uint64_t now_ns);
  [[nodiscard]] bool held_by_earlier(std::uint32_t context) const;
  void add_history(const History& history, std::uint64_t from_ns, std::uint64_t to_ns);
  [[nodiscard]] std::uint64_t next_change_of(std::uint32_t device) const;
  [[nodiscard]] std::uint64_t step_end_ns() const;
  // schedule.cpp, start.cpp
  void settle_all();
  bool settle(std::uint32_t device);
  bool finish_due(std::uint32_t device);
  bool finish_kernels(std::uint32_t context);
  bool finish_copies(std::uint32_t device);
  void choose_context(std::uint32_t device);
  void give_slice(std::uint32_t device, std::uint32_t context);
  void begin_slice(std::uint32_t device, std::uint32_t context);
  void shift_kernels(std::uint32_t device, std::uint64_t by_ns);
  // Returns true if the context has the slice. With an MPS client, all other clients have it too.
  [[nodiscard]] bool has_device(std::uint32_t context) const;
  template <typename Use>
  void each_on(std::uint32_t device, Use use) const {
    const std::uint32_t active = state_->devices[device].active;
    if (active == kNone) return;
    if (state_->contexts[active].mps_sms == 0) return use(active);
    for (std::uint32_t c = 0; c < state_->context_limit; ++c)
      if (state_->contexts[c].used && state_->contexts[c].device == device && has_device(c)) use(c);
  }
  [[nodiscard]] bool any_runnable_on(std::uint32_t device) const;
  [[nodiscard]] std::uint32_t sms_of(const Context& context) const;
  bool start_ready(std::uint32_t device);
  bool start_instants(std::uint32_t context);
  bool start_oldest(std::uint32_t device);
  bool start_kernel(std::uint32_t context);
  [[nodiscard]] std::uint64_t overlap_ns(std::uint32_t stream, std::uint64_t number, std::uint64_t start_ns) const;
  bool fits(std::uint32_t stream, const Command& command, std::uint32_t* sms) const;
  [[nodiscard]] std::uint32_t free_sms(std::uint32_t stream) const;
  [[nodiscard]] std::uint32_t oldest_kernel(std::uint32_t context, std::uint64_t full_partitions) const;
  bool step_instant(std::uint32_t stream, const Command& command);
  bool start_copy(std::uint32_t stream, const Command& command);
  void execute_record(const Command& command);
  void complete(std::uint32_t stream);
  void finish_kernel(std::uint32_t stream);
  void drop(std::uint32_t stream, const Command& command);
  void stop(std::uint32_t stream);
  bool end_overdue(std::uint32_t context);
  [[nodiscard]] std::uint64_t overdue_ns(const Stream& stream) const;
  [[nodiscard]] bool runnable(std::uint32_t context) const;
  [[nodiscard]] bool in_order(std::uint32_t stream, std::uint64_t order) const;
  [[nodiscard]] bool event_satisfied(const Command& command) const;
  [[nodiscard]] bool flag_satisfied(const Command& command) const;
  [[nodiscard]] const Command* head_command(std::uint32_t stream) const;
  [[nodiscard]] const Ready* head_facts(std::uint32_t stream) const;
  [[nodiscard]] std::uint32_t next_runnable(std::uint32_t device, std::uint32_t not_this) const;
  [[nodiscard]] bool startable(std::uint32_t stream) const;
  // life.cpp
  void free_stream(std::uint32_t stream);
  void free_event(std::uint32_t event);
  void bury_account(std::uint32_t account);
  void end_teardowns(std::uint64_t now_ns);
  void zero_history(const History& history);
  // predict.cpp
  [[nodiscard]] std::uint64_t earliest(std::uint32_t stream, std::uint64_t number, int depth, int* waits) const;
  [[nodiscard]] std::uint64_t earliest_turn_ns(std::uint32_t context) const;
  [[nodiscard]] std::uint64_t dry_of(std::uint32_t context, std::uint64_t slice_end_ns) const;

  State* state_;
  Journal* journal_;
};

// Called by a stream's or event's owner, without an engine; one caller per stream at a time.
//
// Returns how many launches a stream's queue holds: the profile's launch_queue_depth, at most kMaxQueued.
[[nodiscard]] std::uint32_t queue_depth(const Profile& profile);
// Appends a command and returns its number in the stream, from 1; 0 if the queue or the ring is full. Commands that
// join take one place together with the next that does not.
[[nodiscard]] std::uint64_t push(State& state, std::uint32_t stream, const Command& command, bool joins = false);
// Returns the number of the command after which push() may find room.
[[nodiscard]] std::uint64_t room_after(const State& state, std::uint32_t stream);
[[nodiscard]] std::uint64_t pushed(const State& state, std::uint32_t stream);
// Return the command that records (awaits) an event; event_record also counts the request. Push it in the same critical
// section.
[[nodiscard]] Command event_record(State& state, std::uint32_t event, std::uint32_t stream, std::uint64_t submit_ns);
[[nodiscard]] Command event_wait(const State& state, std::uint32_t event, std::uint64_t submit_ns);
// Returns true values only for what the engine has executed so far.
[[nodiscard]] EventReading read_event(const State& state, std::uint32_t event);

// Returns the duration of a copy by the profile; at least 1 us unless it is empty.
[[nodiscard]] std::uint64_t copy_ns(const Profile& profile, CommandKind kind, std::uint64_t bytes);
// Converts node time to GPU clock, without the step.
[[nodiscard]] std::uint64_t gpu_clock_ns(const Profile& profile, std::uint64_t node_ns);
// Returns the duration of a grid in waves over `sms` SMs, with block_ns per wave.
[[nodiscard]] std::uint64_t wave_ns(const Profile& profile, std::uint64_t blocks, std::uint32_t threads_per_block,
                                    std::uint32_t sms);
// Returns the SMs of an MPS client with this percentage, 1..100.
[[nodiscard]] std::uint32_t mps_sms(const Profile& profile, std::uint32_t percent);
// Returns the SMs that a grid occupies: min(blocks, SMs).
[[nodiscard]] std::uint32_t sms_needed(const Profile& profile, std::uint64_t blocks);
// Returns the time held in node-time bucket `index`; exact within the last kHistoryBuckets buckets.
[[nodiscard]] std::uint32_t held_in_bucket(const History& history, std::uint64_t index);

}  // namespace headgate::sim
