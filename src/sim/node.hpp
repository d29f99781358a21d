// A node directory: one file of shared memory that every process of the node maps, under one robust lock.
//
// DIR/node        the state (sparse), created by the first process; h200 unless a profile was compiled into it
// DIR/clients/N   process N holds a POSIX record lock on it while it lives. That shows its death without /proc and
//                 in any pid namespace; a forked child does not inherit it
// DIR/memory/N-G  the bytes of shared memory N. A process that holds it has a lock on its open file, which follows
//                 the descriptors into messages, forked children and mappings
//
// No daemon serves the node: each call advances it to now. A kill -9 at any point leaves a consistent node.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sim/engine.hpp"

namespace headgate::sim {

struct NodeFile;

// Node time: bare::host_ns(), so that programs in time namespaces agree.
[[nodiscard]] std::uint64_t clock_ns();

// Returns HEADGATE_SIM_DIR, else the node mounted into this container, else an error that says to set it.
[[nodiscard]] Result<std::string> node_directory();

// Returns the CUDA version of the node in that directory, read without locking or mapping it; 0 if there is no node.
[[nodiscard]] int cuda_version_of_node(const std::string& directory);

// Creates the directory (not its parents) and a node of this profile. If node_seed is 0, the directory gets its seed.
// Error `failed` if a node of another profile exists.
[[nodiscard]] Result<void> create_node(const std::string& directory, const Profile& profile);
// Replaces the node with an empty one. Error no_capacity while a process uses it.
[[nodiscard]] Result<void> recreate_node(const std::string& directory, const Profile& profile);

// Lets all users of the machine use this node, as /dev/nvidia* is open to all. Its files are writable by all users,
// whatever the umask of the process that creates more of them. The directory stays its owner's, so others cannot
// replace its files. Any user can write all of the node's state: users are not isolated from each other.
[[nodiscard]] Result<void> open_to_all(const std::string& directory);

class Node {
 public:
  // Opens a node; if there is none, creates an h200 (HEADGATE_SIM_PROFILE names another built-in profile). Creates the
  // directory if necessary.
  [[nodiscard]] static Result<std::unique_ptr<Node>> open(const std::string& directory);
  // Opens an existing node only. Error unreachable if there is none.
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
  // Called in a forked child, which does not own the parent's slot.
  void forget_after_fork();

  // Holds the lock. Half-finished steps of dead owners have been undone; advance() brings the node to now.
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

  // The same, advanced to now.
  struct Advanced : Locked {
    explicit Advanced(Node& node) : Locked(node) { advance(); }
  };

  // Advances to now.
  void advance() { Advanced now(*this); }
  // Sleeps until `number` commands of the stream are complete, or at most timeout_ns. Returns true if complete.
  bool wait_completed(std::uint32_t stream, std::uint64_t number, std::uint64_t timeout_ns = kNever);
  // Called after a push: wakes sleepers that wait for something no queue announces. One load if there are none.
  void pushed();
  // Sleeps until that time (25 ms at most) or until something unpredictable happens.
  void sleep_until(std::uint64_t until_ns);
  // Wakes every sleeper of the node.
  void wake();
  // Looks for dead processes now (otherwise the lock's holder does so every 25 ms).
  void reap();
  // Allocate disk space for a stream's queue or an account's history. False if the directory's file system is full.
  [[nodiscard]] bool back_stream(std::uint32_t stream);
  [[nodiscard]] bool back_account(std::uint32_t account);

  // Memory that other processes may hold (node_shared.cpp). The caller holds the lock, and the account already holds
  // the bytes; `file_bytes` is the file's size. A closed descriptor: no room, or the directory is not writable.
  [[nodiscard]] UniqueFd create_shared(Engine& engine, std::uint32_t account, std::uint64_t bytes,
                                       std::uint64_t file_bytes, std::uint32_t* shared);
  // Opens the file again. The caller must hold it already, or know that it is not free.
  [[nodiscard]] UniqueFd open_shared(std::uint32_t shared);
  // Returns the shared memory that a descriptor refers to; kNone if none.
  [[nodiscard]] std::uint32_t shared_of(int descriptor) const;
  // Frees it if no process holds it any more.
  void settle_shared(Engine& engine, std::uint32_t shared);

  // Returns true if the node's file was found removed. Its processes cannot find each other any more, so its GPUs count
  // as lost.
  [[nodiscard]] bool is_removed() const { return removed_.load(std::memory_order_relaxed); }

 private:
  friend class Locked;
  Node() = default;
  [[nodiscard]] std::string shared_path(std::uint32_t shared) const;
  static Result<std::unique_ptr<Node>> open(const std::string& directory, const Profile* create);
  void lock();
  void end_if_damaged() const;
  // Returns the process that it resumed, to be stopped again; 0 if none.
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
  std::uint64_t looked_ns_ = 0;  // last check for removal; under the lock
};

}  // namespace headgate::sim
