// A node directory: one file of shared memory that every process of the node maps, under one robust lock.
//
//   DIR/node        the state (sparse), created by whoever comes first; h200 unless a profile was compiled into it
//   DIR/clients/N   process N holds a POSIX record lock on it while it lives: its death shows without /proc and in any
//                   pid namespace, and a forked child does not inherit it
//   DIR/memory/N-G  the bytes of shared memory N: whoever holds it has a lock on its open file, which goes where
//   descriptors
//                   go: into messages, forked children, mappings
//
// Nobody serves the node: whoever looks advances it to now. A kill -9 anywhere leaves a sound node.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sim/engine.hpp"

namespace headgate::sim {

struct NodeFile;

// bare::host_ns(): the node's time, also for programs in time namespaces.
[[nodiscard]] std::uint64_t clock_ns();

// HEADGATE_SIM_DIR, else the node that is mounted into this container, or an error that says to set it.
[[nodiscard]] Result<std::string> node_directory();

// The CUDA version of the node in that directory, read without its lock and without mapping it; 0: no node is there yet.
[[nodiscard]] int cuda_version_of_node(const std::string& directory);

// Makes the directory (parents not) and the node of this profile; where its node_seed is 0, with a seed of the
// directory's own. Error `failed` where a node of another profile is.
[[nodiscard]] Result<void> create_node(const std::string& directory, const Profile& profile);
// Empties the node whatever is in it; refused (no_capacity) while a process uses it.
[[nodiscard]] Result<void> recreate_node(const std::string& directory, const Profile& profile);

// Lets every user of the machine use the node that is there, as /dev/nvidia* may be opened by everybody: its files can
// be written by all, whatever the umask of those who make more of them. The directory itself stays its owner's: nothing
// in it can be put elsewhere. Whoever uses a node can write all of its state: there is no wall between its users.
[[nodiscard]] Result<void> open_to_all(const std::string& directory);

class Node {
 public:
  // Opens what is there; creates an h200 (HEADGATE_SIM_PROFILE names another built-in one) in an existing or new
  // directory.
  [[nodiscard]] static Result<std::unique_ptr<Node>> open(const std::string& directory);
  // Opens only what is there: unreachable otherwise.
  [[nodiscard]] static Result<std::unique_ptr<Node>> open_existing(const std::string& directory);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const Profile& profile() const;
  [[nodiscard]] State& state() { return *state_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }

  // Registers the calling process. no_capacity when the node holds kMaxProcesses.
  // `mps_percent`: ProcessIdentity's.
  [[nodiscard]] Result<std::uint32_t> attach(std::uint32_t mps_percent = 0);
  void detach();
  [[nodiscard]] std::uint32_t process() const { return process_; }
  // In a forked child: the parent's slot is not ours.
  void forget_after_fork();

  // The lock, held: dead owners' half steps undone, the node advanced to now on request.
  class Locked {
   public:
    explicit Locked(Node& node);
    ~Locked();
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    Engine* operator->() { return &engine_; }
    Engine& engine() { return engine_; }
    void advance() { node_.advance_locked(engine_); }

   private:
    Node& node_;
    Engine engine_;
    std::uint64_t changes_;
  };

  // Advances to now.
  void advance();
  // Sleeps until `number` commands of the stream are complete, or for at most timeout_ns. True when complete.
  bool wait_completed(std::uint32_t stream, std::uint64_t number, std::uint64_t timeout_ns = kNever);
  // After a push: wakes those who wait for what no queue promised. One load when nobody does.
  void pushed();
  // Sleeps until that time (25 ms at most) or until something unpredictable happens.
  void sleep_until(std::uint64_t until_ns);
  // Wakes every sleeper of the node.
  void wake();
  // Looks for dead processes now (otherwise every 25 ms, by whoever holds the lock).
  void reap();
  // Disk space behind a stream's queue or an account's history: false when the directory's file system is full.
  [[nodiscard]] bool back_stream(std::uint32_t stream);
  [[nodiscard]] bool back_account(std::uint32_t account);

  // Memory that other processes may hold (node_shared.cpp). All under the lock, with its engine. The account holds the
  // bytes already; `file_bytes` is what the file has. A closed descriptor: no room, or the directory is not writable.
  [[nodiscard]] UniqueFd create_shared(Engine& engine, std::uint32_t account, std::uint64_t bytes,
                                       std::uint64_t file_bytes, std::uint32_t* shared);
  // Another open file of it; the caller holds one already, or it is not free.
  [[nodiscard]] UniqueFd open_shared(std::uint32_t shared);
  // Which memory a descriptor is of; kNone where it is of none.
  [[nodiscard]] std::uint32_t shared_of(int descriptor) const;
  // Frees it where nobody holds it any more.
  void settle_shared(Engine& engine, std::uint32_t shared);

  // Whether the node's file was removed, as was last seen: its processes find each other no more, so its GPUs count as
  // lost.
  [[nodiscard]] bool is_removed() const { return removed_.load(std::memory_order_relaxed); }

 private:
  friend class Locked;
  Node() = default;
  [[nodiscard]] std::string shared_path(std::uint32_t shared) const;
  static Result<std::unique_ptr<Node>> open(const std::string& directory, const Profile* create);
  void lock();
  void end_if_damaged() const;
  // The process it lets go on, to be stopped again; 0: none.
  [[nodiscard]] int let_stopped_owner_finish() const;
  void unlock();
  void advance_locked(Engine& engine);
  void reap_locked(Engine& engine);
  bool gone(std::uint32_t process) const;
  [[nodiscard]] bool back(const void* what, std::size_t bytes);
  void sleep(std::uint32_t word, std::uint64_t until_ns);

  std::string directory_;
  NodeFile* file_ = nullptr;
  State* state_ = nullptr;
  std::unique_ptr<Journal, void (*)(Journal*)> journal_{nullptr, nullptr};
  UniqueFd fd_, client_fd_;
  std::uint32_t process_ = kNone;
  std::atomic<bool> removed_{false};
  std::uint64_t looked_ns_ = 0;  // for that; under the lock
};

}  // namespace headgate::sim
